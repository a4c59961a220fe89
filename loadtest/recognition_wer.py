"""Word errors of a Whisper on recordings of people, by the bits of its weights and beside faster-whisper, in one run.

    python loadtest/recognition_wer.py --recordings recordings.tsv --model build/real/models/whisper-base
        [--bits 0 8] [--peer FOLDER]

The table of recordings has a line each with tabs: file, language, and what is said in it. All sides pass
openai-whisper's normalizer, English or general, which is given before the run. `--peer` is the same model in
CTranslate2's layout: faster-whisper recognizes with int8 and with float32 weights, greedily, without its filter of
voices. Needs openai-whisper (`.venv-parity`).
The rule: `auto` may take fewer bits where the share of wrong words grows by at most 0.2 points.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from whisper.normalizers import BasicTextNormalizer, EnglishTextNormalizer

from models.backend import cpu_count
from models.contract import ModelSpec, RecognitionRequest
from models.timeline import Timeline
from models.whisper.pipeline import WhisperRecognizer, load
from training.measure import word_errors

RATE = 16_000
Side = Callable[[npt.NDArray[np.float32], str], str]
"""Function from samples at 16 kHz and a language to the text."""


@dataclass
class Errors:
    """Words that one side got wrong, of so many, in English and in other languages; the seconds that it took."""

    wrong: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    words: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    seconds: float = 0.0

    def share(self, *, english: bool) -> str:
        """Return the share of wrong words, for a table."""
        words = self.words[english]
        return f"{100 * self.wrong[english] / words:.2f} % of {words}" if words else "-"


def samples(path: Path) -> npt.NDArray[np.float32]:
    """Decode a recording to mono at 16 kHz."""
    with av.open(str(path)) as container:
        resampler = av.AudioResampler("flt", "mono", RATE)
        parts = [frame.to_ndarray()[0] for each in container.decode(audio=0) for frame in resampler.resample(each)]
    return np.concatenate(parts)


def recognizer(folder: Path, bits: int) -> WhisperRecognizer:
    """Load a Whisper in the hub's layout."""
    names = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json",
             "generation": "generation_config.json"}  # fmt: skip
    files = {role: str(folder / name) for role, name in names.items()}
    return load(ModelSpec(folder.name, "whisper", files, bits=bits))


def ours(folder: Path, bits: int) -> Side:
    """Return this project's recognizer, as it is without options."""
    model = recognizer(folder, bits)

    def recognize(pcm: npt.NDArray[np.float32], language: str) -> str:
        segments = model.recognize(RecognitionRequest(pcm, language), Timeline(), lambda: False)
        return "".join(each.text for each in segments if each is not None)

    return recognize


def faster_whisper(folder: Path, kind: str) -> Side:
    """Return faster-whisper with weights of `kind`, greedy as this project is."""
    from faster_whisper import WhisperModel

    model: Any = WhisperModel(str(folder), device="cpu", compute_type=kind, cpu_threads=cpu_count())

    def recognize(pcm: npt.NDArray[np.float32], language: str) -> str:
        segments, _ = model.transcribe(pcm, language=language, beam_size=1, condition_on_previous_text=True)
        return "".join(segment.text for segment in segments)

    return recognize


def read_table(path: Path) -> list[tuple[str, str, str]]:
    """Return file, language and transcript of each recording."""
    with path.open(encoding="utf-8") as file:
        return [(row[0], row[1], row[2]) for row in csv.reader(file, delimiter="\t") if len(row) == 3]


def compare(recordings: Path, sides: Mapping[str, Side]) -> tuple[dict[str, Errors], float]:
    """Return the errors of each side, which take turns by recording, and the seconds of audio."""
    english, general, letters = EnglishTextNormalizer(), BasicTextNormalizer(), BasicTextNormalizer(split_letters=True)
    found = {name: Errors() for name in sides}
    audio = 0.0
    for name, language, text in read_table(recordings):
        pcm = samples(recordings.parent / name)
        audio += pcm.size / RATE
        is_english = language == "en"
        # Chinese and Japanese have no spaces: each character counts as a word.
        normalize = english if is_english else letters if language in ("zh", "ja") else general
        expected = normalize(text).split()
        shown = []
        for side, recognize in sides.items():
            begun = time.perf_counter()
            written = normalize(recognize(pcm, language)).split()
            found[side].seconds += time.perf_counter() - begun
            wrong = word_errors(expected, written)
            found[side].wrong[is_english] += wrong
            found[side].words[is_english] += len(expected)
            shown.append(wrong)
        if len(set(shown)) > 1:
            print(f"{name}: wrong of {len(expected)}: {', '.join(map(str, shown))}", flush=True)
    return found, audio


def table(found: Mapping[str, Errors]) -> str:
    """Return the errors as a table in Markdown."""
    first = next(iter(found.values())).seconds
    lines = ["| side | words wrong, English | other languages | seconds | of the first |", "|---|---|---|---|---|"]
    for name, each in found.items():
        shares = f"{each.share(english=True)} | {each.share(english=False)}"
        lines.append(f"| {name} | {shares} | {each.seconds:.0f} | {each.seconds / first:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bits", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--peer", type=Path, help="folder of the same model for faster-whisper")
    given = parser.parse_args()
    sides = {f"nightingale, {f'{bits} bits' if bits else 'floats'}": ours(given.model, bits) for bits in given.bits}
    if given.peer is not None:
        sides |= {f"faster-whisper, {kind}": faster_whisper(given.peer, kind) for kind in ("int8", "float32")}
    found, audio = compare(given.recordings, sides)
    print(f"\n{given.model.name}, {audio:.0f} s, {platform.processor() or platform.machine()}\n")
    print(table(found))


if __name__ == "__main__":
    main()
