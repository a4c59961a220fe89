"""Time a batch of Kokoro's sentences against the same sentences one after the other, in one run.

    python -m loadtest.batching --model random --batch 2,8,32 --runs 7 [--kind even] [--dtype bfloat16] [--json FILE]

`house` is the voice in the box, `random` a network of Kokoro-82M's size with random weights, four frames a token.
Short sentences have 3 to 8 words, middle ones 12 to 16, all of different lengths; even ones have 14 phonemes each.
`linear` is the gain divided by the size of the batch: 1 where a batch takes no longer than one sentence. Rounds
alternate between both ways, after one warm round of each. `apart` is how far the batch's samples are from those of the
sentences alone. Needs only MLX and numpy.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadtest import fake_kokoro
from models.backend import device_name, limit_cache
from models.contract import ModelSpec
from models.kokoro.pipeline import BatchRow, KokoroSynthesizer, load
from models.kokoro.text import tokenize
from models.timeline import Timeline

WORDS = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ ænd ðˈɛn ɪt ɹˈɛsts bIðə wˈɔɾəɹ."
LENGTHS = {"short": (5, 3, 8, 4, 6, 7, 3, 5), "middle": (14, 12, 16, 13, 15, 12, 14, 16)}
EVEN = "even"
EVEN_PHONEMES = 14
FRAMES_PER_TOKEN = 4


def random_kokoro(dtype: str) -> KokoroSynthesizer:
    """Return a network of Kokoro-82M's shapes with random weights."""
    with tempfile.TemporaryDirectory() as folder:
        fake_kokoro.write(Path(folder) / "random", frames=FRAMES_PER_TOKEN)
        return opened(Path(folder) / "random", dtype)


def house(dtype: str) -> KokoroSynthesizer:
    """Return the bundled voice."""
    return opened(fake_kokoro.HOUSE, dtype)


def opened(folder: Path, dtype: str) -> KokoroSynthesizer:
    """Open a checkpoint in our own names."""
    names = {"config": "config.json", "weights": "model.safetensors", "voices": "voices.safetensors"}
    files = {role: str(folder / name) for role, name in names.items()}
    return load(ModelSpec(folder.name, "kokoro", files, dtype=dtype))


MODELS: dict[str, Callable[[str], KokoroSynthesizer]] = {"house": house, "random": random_kokoro}


def sentences(model: KokoroSynthesizer, kind: str, count: int) -> list[BatchRow]:
    """Return `count` sentences of that kind; all voices take turns."""
    words, vocab, packs = WORDS.split(), model.config.vocab, list(model._packs.values())
    rows = []
    for at in range(count):
        count_of_words = EVEN_PHONEMES if kind == EVEN else LENGTHS[kind][at % len(LENGTHS[kind])]
        first = at % len(words)
        phonemes = " ".join((words * 2)[first : first + count_of_words])
        if kind == EVEN:
            phonemes = "".join(character for character in phonemes if character in vocab)[:EVEN_PHONEMES]
        ids, _ = tokenize(phonemes, vocab, model.max_phonemes)
        rows.append(BatchRow(ids, packs[at % len(packs)][:1], 1.0, at, Timeline(), lambda: False))
    return rows


def measure(model: KokoroSynthesizer, rows: Sequence[BatchRow], runs: int) -> dict[str, Any]:
    """Return median milliseconds of both ways over alternating rounds, and the distance of their samples."""
    alone: list[float] = []
    together: list[float] = []
    single: list[npt.NDArray[np.float32]] = []
    batch: dict[int, npt.NDArray[np.float32]] = {}
    for _ in range(runs + 1):
        start = time.perf_counter()
        single = [chunk.pcm for row in rows for _, chunk in model.synthesize_batch([row])]
        middle = time.perf_counter()
        batch = {at: chunk.pcm for at, chunk in model.synthesize_batch(rows)}
        alone.append((middle - start) * 1e3)
        together.append((time.perf_counter() - middle) * 1e3)
    apart = [
        float(np.linalg.norm(batch[at] - pcm) / np.linalg.norm(pcm)) if batch[at].shape == pcm.shape else math.inf
        for at, pcm in enumerate(single)
    ]
    one, many = statistics.median(alone[1:]), statistics.median(together[1:])
    audio = sum(pcm.size for pcm in single) / model.sample_rate
    return {"alone_ms": one, "together_ms": many, "gain": one / many, "audio_s": audio, "apart": max(apart)}


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="house")
    parser.add_argument("--batch", default="2,4,8", help="sizes, each at least 1 (default 2,4,8)")
    parser.add_argument("--kind", choices=(*LENGTHS, EVEN), action="append", help="default: all")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of a GPU's decoder")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    limit_cache(1 << 30)
    model = MODELS[given.model](given.dtype)
    sizes = [int(size) for size in given.batch.split(",")]
    model.max_batch = max(sizes)  # warm these, too
    start = time.perf_counter()
    model.warm(lambda _: None)
    report: dict[str, Any] = {"device": device_name(), "model": given.model, "dtype": given.dtype, "rows": []}
    report["warm_s"] = time.perf_counter() - start
    heading = f"{report['device']}; {given.model}, {given.dtype}; warm in {report['warm_s']:.1f} s"
    print(f"{heading}; medians of {given.runs}")
    print("  kind    batch   audio s   alone ms   together ms    gain  linear     apart")
    for kind in given.kind or (*LENGTHS, EVEN):
        for size in sizes:
            found = measure(model, sentences(model, kind, size), given.runs)
            report["rows"].append({"kind": kind, "batch": size, **found})
            print(
                f"  {kind:7s} {size:5d} {found['audio_s']:9.2f} {found['alone_ms']:10.1f} {found['together_ms']:13.1f}"
                f" {found['gain']:7.2f} {found['gain'] / size:7.2f} {found['apart']:9.1e}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
