"""Word errors of a Whisper on recordings of people, by the bits of its weights, in one run.

    python loadtest/recognition_wer.py --recordings recordings.tsv --model build/real/models/whisper-base

The table of recordings has a line each with tabs: file, language, and what is said in it. Both sides pass
openai-whisper's normalizer, English or general, which is given before the run. Needs openai-whisper (`.venv-parity`).
The rule: `auto` may take fewer bits where the share of wrong words grows by at most 0.2 points.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from whisper.normalizers import BasicTextNormalizer, EnglishTextNormalizer

from models.contract import ModelSpec, RecognitionRequest
from models.timeline import Timeline
from models.whisper.pipeline import WhisperRecognizer, load
from training.measure import word_errors

RATE = 16_000


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bits", type=int, nargs="+", default=[0, 8])
    given = parser.parse_args()
    with given.recordings.open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if len(row) == 3]
    english, general = EnglishTextNormalizer(), BasicTextNormalizer()
    models = {bits: recognizer(given.model, bits) for bits in given.bits}
    wrong: dict[tuple[int, bool], int] = {}
    words: dict[bool, int] = {}
    seconds = dict.fromkeys(models, 0.0)
    audio = 0.0
    for name, language, text in rows:
        pcm = samples(given.recordings.parent / name)
        audio += pcm.size / RATE
        is_english = language == "en"
        normalize = english if is_english else general
        expected = normalize(text).split()
        words[is_english] = words.get(is_english, 0) + len(expected)
        found = {}
        for bits, model in models.items():
            begun = time.perf_counter()
            segments = model.recognize(RecognitionRequest(pcm, language), Timeline(), lambda: False)
            found[bits] = normalize("".join(each.text for each in segments if each is not None)).split()
            seconds[bits] += time.perf_counter() - begun
            key = bits, is_english
            wrong[key] = wrong.get(key, 0) + word_errors(expected, found[bits])
        if len({tuple(each) for each in found.values()}) > 1:
            shown = [f"{word_errors(expected, each)} of {len(expected)}" for each in found.values()]
            print(f"{name}: {' | '.join(shown)}", flush=True)
    print(
        f"\n{given.model.name}, {len(rows)} recordings, {audio:.0f} s, {platform.processor() or platform.machine()}\n"
    )
    print("| bits | words wrong, English | other languages | seconds | of the first |")
    print("|---|---|---|---|---|")
    first = seconds[given.bits[0]]
    for bits in models:
        shares = [
            f"{100 * wrong.get((bits, each), 0) / words[each]:.2f} % of {words[each]}" if words.get(each) else "-"
            for each in (True, False)
        ]
        print(f"| {bits or 'floats'} | {shares[0]} | {shares[1]} | {seconds[bits]:.0f} | {seconds[bits] / first:.2f} |")


if __name__ == "__main__":
    main()
