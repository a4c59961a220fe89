"""Compare the house voice in bfloat16 with float32: word errors by pocketsphinx, log-spectral distance.

    python -m training.precision phonemes build/precision   the held-out sentences' phonemes
    python -m training.precision speak build/precision      both precisions, on a CPU with AMX or a GPU
    python -m training.precision judge build/precision      distances, and the words that the recognizer hears

Each step reads the files of the one before, so that the machine that speaks needs neither dictionary nor recognizer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from training.measure import Audio, log_spectral_distance, word_errors, words_of

PRECISIONS = ("float32", "bfloat16")
VOICES = ("rms", "slt")
HOUSE = Path("models/house")


def phonemes(folder: Path) -> None:
    """Write the phonemes of each held-out sentence."""
    from training.corpus import HELD_OUT, product_phonemizer

    phonemize = product_phonemizer()
    rows = [(text, phonemize(text)) for text in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "phonemes.json").write_text(json.dumps(rows), encoding="utf-8")


def speak(folder: Path) -> None:
    """Speak each sentence with each voice in each precision. Raises SystemExit where nothing computes in bfloat16."""
    from models.backend import on_cpu
    from models.contract import SpeechRequest
    from models.native import kernels
    from models.timeline import Timeline
    from training.evaluate import load

    if on_cpu() and not kernels.has_bfloat16():
        raise SystemExit("this processor does not multiply in bfloat16")
    rows = json.loads((folder / "phonemes.json").read_text(encoding="utf-8"))
    for precision in PRECISIONS:
        model = load(HOUSE, precision)
        found: dict[str, Audio] = {}
        for voice in VOICES:
            for number, (text, said) in enumerate(rows):
                chunks = model.stream(SpeechRequest(text, said, voice), Timeline(), lambda: False)
                found[f"{voice} {number}"] = np.concatenate([chunk.pcm for chunk in chunks])
        np.savez(folder / f"{precision}.npz", **found)  # type: ignore[arg-type]  (its first parameter has a name)


def judge(folder: Path) -> None:
    """Print the distances of the utterances, and each voice's word errors in each precision."""
    from training.evaluate import Recognizer

    rows = json.loads((folder / "phonemes.json").read_text(encoding="utf-8"))
    spoken = {precision: dict(np.load(folder / f"{precision}.npz")) for precision in PRECISIONS}
    exact, coarse = (spoken[precision] for precision in PRECISIONS)
    distances = [log_spectral_distance(exact[key], coarse[key]) for key in exact]
    relative = [float(np.linalg.norm(coarse[key] - exact[key]) / np.linalg.norm(exact[key])) for key in exact]
    print(f"log-spectral distance: mean {np.mean(distances):.3f} dB, largest {max(distances):.3f} dB")
    print(f"relative error of the waveform: mean {np.mean(relative):.4f}, largest {max(relative):.4f}")
    recognizer = Recognizer(folder / "heard.json")
    words = sum(len(words_of(text)) for text, _ in rows)
    for precision, utterances in spoken.items():
        for voice in VOICES:
            heard = [recognizer.hear(utterances[f"{voice} {number}"], 24_000) for number in range(len(rows))]
            errors = sum(word_errors(words_of(text), words_of(one)) for (text, _), one in zip(rows, heard, strict=True))
            print(f"{precision} {voice}: {errors} errors in {words} words, {100 * errors / words:.2f} %")
    recognizer.remember()


def main(argv: Sequence[str] | None = None) -> None:
    """Run one step."""
    steps = {"phonemes": phonemes, "speak": speak, "judge": judge}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=steps)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(argv)
    steps[options.step](options.folder)


if __name__ == "__main__":
    main()
