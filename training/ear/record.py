"""Speech of the texts by every speaker, in shards.

    python -m training.ear.record build/ear build/ear/shards [--hours 100] [--jobs 16]
    python -m training.ear.record build/ear build/ear/held_out --held-out [--texts training/eval_sentences.txt]

Each text is spoken by one speaker, drawn by its share; with `--held-out` each by every held-out speaker. A shard
appears under its name only when it is whole.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.ear.speakers import HELD_OUT, RATE, SHARES, TRAINED, speaker
from training.ear.texts import read_texts, target
from training.teacher import batched, shards_in

SHARD_SIZE = 1000
LONGEST = 15.0  # seconds: the positions of the recognizer
SHORTEST = 0.2
_EDGE = 0.003  # of full scale: what is quieter at the ends is silence
_PAD = 0.1  # seconds of it that stay


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text, its speaker and its audio, int16 [samples] at RATE."""

    text: str
    speaker: str
    audio: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Job:
    """An utterance to make. `seed` draws rate and pitch."""

    text: str
    speaker: str
    seed: int


def jobs_for(lines: Sequence[str], speakers: Sequence[str], seed: int) -> Iterator[Job]:
    """Yield the texts again and again, each time by other speakers."""
    rng = random.Random(seed)
    weights = [SHARES.get(name, 1.0) for name in speakers]
    while True:
        for line in lines:
            yield Job(line, rng.choices(speakers, weights)[0], rng.getrandbits(31))


def trimmed(audio: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Return audio with at most _PAD seconds of silence at either end; empty if all is silence."""
    loud = np.flatnonzero(np.abs(audio.astype(np.int32)) > _EDGE * 32768)
    pad = round(_PAD * RATE)
    return audio[max(0, loud[0] - pad) : loud[-1] + pad] if loud.size else audio[:0]


def speak(job: Job) -> Utterance | None:
    """Return the utterance of a job; None where its length is not accepted, or the speaker fails: it is named."""
    try:
        audio = trimmed(speaker(job.speaker)(job.text, random.Random(job.seed)))
    except (OSError, subprocess.CalledProcessError) as error:  # one bad speaker must not end a recording
        print(f"{job.speaker}: {error}", file=sys.stderr, flush=True)
        return None
    return Utterance(job.text, job.speaker, audio) if SHORTEST <= audio.size / RATE <= LONGEST else None


def write_shard(path: Path, utterances: Sequence[Utterance]) -> None:
    """Save utterances end to end."""
    partial = path.with_suffix(".part.npz")
    np.savez(
        partial,
        audio=np.concatenate([each.audio for each in utterances]),
        samples=np.array([each.audio.size for each in utterances]),
        text=np.array([each.text for each in utterances]),
        speaker=np.array([each.speaker for each in utterances]),
    )
    partial.rename(path)


def read_shard(path: Path) -> list[Utterance]:
    """Return the utterances of one shard."""
    with np.load(path) as data:
        parts = np.split(data["audio"], np.cumsum(data["samples"])[:-1])
        return [
            Utterance(str(text), str(name), audio)
            for text, name, audio in zip(data["text"], data["speaker"], parts, strict=True)
        ]


def record(jobs: Iterator[Job], folder: Path, hours: float, processes: int) -> float:
    """Write shards until there are so many hours or no jobs; return the hours."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a process
    samples = 0
    with get_context("spawn").Pool(processes) as pool:
        made = (each for each in pool.imap(speak, jobs, chunksize=8) if each is not None)
        for number, utterances in enumerate(batched(made, SHARD_SIZE), len(shards_in(folder))):
            write_shard(folder / f"{number:05d}.npz", utterances)
            samples += sum(each.audio.size for each in utterances)
            if samples >= hours * 3600 * RATE:
                pool.terminate()
                break
    return samples / RATE / 3600


def main(argv: Sequence[str] | None = None) -> None:
    """Make the shards that the arguments ask for."""
    parser = argparse.ArgumentParser(description="Speak the texts of the ear.")
    parser.add_argument("ear", type=Path, help="folder of texts.txt")
    parser.add_argument("shards", type=Path, help="folder to write to; numbering goes on after what is there")
    parser.add_argument("--texts", type=Path, help="another file of texts, one a line")
    parser.add_argument("--hours", type=float, default=100.0)
    parser.add_argument("--speakers", nargs="*", help="only these; default: those of training, or the held-out ones")
    parser.add_argument("--held-out", action="store_true", help="every text once by every held-out speaker")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    lines = [text for line in read_texts(options.texts or options.ear / "texts.txt") if (text := target(line))]
    jobs = jobs_for(lines, options.speakers or TRAINED, options.seed)
    if options.held_out:
        jobs = (Job(line, name, options.seed) for name in options.speakers or HELD_OUT for line in lines)
    started = time.monotonic()
    hours = record(jobs, options.shards, options.hours, options.jobs)
    print(f"{hours:.2f} h of speech in {time.monotonic() - started:.0f} s -> {options.shards}", flush=True)


if __name__ == "__main__":
    main()
