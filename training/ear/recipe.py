"""The whole recipe on one machine: record while training runs, look at the result, and make the product's files.

    python -m training.ear.recipe build/ear [--seconds 1200] [--hours 70] [--jobs 14] [--init models/ear]

Needs flite, a GPU, and the environments of both tables in README.md in one. `build/ear` has `texts.txt` and
`tokenizer.json` (`training.ear.texts`). Recording takes all processors but two, which training needs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PASSED = ("init", "dropout", "strength", "batch", "rate")  # options of the training
SENTENCES = Path(__file__).parents[1] / "eval_sentences.txt"


def module(name: str, *arguments: object) -> list[str]:
    """Return the command of a program of this package."""
    return [sys.executable, "-m", f"training.ear.{name}", *map(str, arguments)]


def record(ear: Path, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Record what the ear is judged by, then start to record what it learns from."""
    judged = ("--texts", SENTENCES, "--jobs", options.jobs)
    subprocess.run(module("record", ear, ear / "held_out", "--held-out", *judged), check=True)
    hours = ("--hours", options.seen_hours, "--seed", 99)
    subprocess.run(module("record", ear, ear / "seen", *judged, *hours), check=True)
    return subprocess.Popen(
        module("record", ear, ear / "shards", "--hours", options.hours, "--jobs", options.jobs),
        start_new_session=True,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run all steps, each in a process of its own; end where one fails."""
    parser = argparse.ArgumentParser(description="Make the ear.")
    parser.add_argument("ear", type=Path, help="folder of texts.txt and tokenizer.json")
    parser.add_argument("--seconds", type=float, default=1200.0, help="of training")
    parser.add_argument("--hours", type=float, default=70.0, help="of speech")
    parser.add_argument("--seen-hours", type=float, default=0.15, help="of speech by known voices to judge by")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="processes that record")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", default="{}", help="of the network, as training.ear.train has them")
    for name in PASSED:
        parser.add_argument(f"--{name}", help="as training.ear.train has it")
    options = parser.parse_args(argv)
    passed = [part for name in PASSED if (value := getattr(options, name)) is not None for part in (f"--{name}", value)]
    ear, run, started = options.ear, options.ear / "run", time.monotonic()
    recording = record(ear, options)
    try:
        training = module("train", ear, run, "--seconds", options.seconds)
        subprocess.run([*training, *passed, "--device", options.device, "--sizes", options.sizes], check=True)
    finally:
        # Its own processes, too: they are a session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(recording.pid, signal.SIGTERM)
        recording.wait()
    for judged in ("held_out", "seen"):
        command = module("greedy", ear / "tokenizer.json", run, ear / judged, "--device", options.device)
        subprocess.run(command, check=True)
    subprocess.run(module("export", run, ear / "tokenizer.json", ear / "model"), check=True)
    print(f"the ear is in {ear / 'model'} after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
