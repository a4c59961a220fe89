"""Judge verification by the ear: the share of good sentences that it refuses, and of spoiled ones that it accepts.

    python -m training.ear.verify --model models/ear [--sentences FILE] [--most 200] [--out FILE]

The sentences set no threshold and are in no training. `FILE` has one a line; what follows a tab is left out. Each is
said by the house voices through the product's front end, and judged as `app/speech/verifier.py` judges. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from app.speech.verification import compare, likely, spoken_text, spoken_words
from app.text.planner import Phonemizer, get_phonemizer
from models.contract import RecognitionRequest, Recognizer
from models.timeline import Timeline
from training.corpus import VERIFIED
from training.ear.evaluate import FAULTY, RATE, Said, faulty, load_ear, say

MIN_WORDS = 5
WORD_SECONDS = 0.35


def sentences(path: Path, most: int) -> list[str]:
    """Return `most` sentences of a file, of MIN_WORDS or more, drawn by one seed."""
    lines = [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    long = [line for line in dict.fromkeys(lines) if len(line.split()) >= MIN_WORDS]
    return random.Random(3).sample(long, min(most, len(long)))


def spoiled(said: Sequence[Said]) -> Iterator[tuple[str, list[Said]]]:
    """Yield groups of wrong speech by name, those of `faulty` and one in which about a word is missing."""
    yield from faulty(said)
    gap = round(WORD_SECONDS * RATE)
    middles = [len(one.audio) // 2 for one in said]
    yield (
        f"{WORD_SECONDS} s left out",
        [
            Said(one.text, np.concatenate([one.audio[:at], one.audio[at + gap :]]))
            for one, at in zip(said, middles, strict=True)
        ],
    )


def accepts(recognizer: Recognizer, phonemizer: Phonemizer, one: Said) -> tuple[bool, bool]:
    """Return whether a sentence passes by its words, and whether it passes by its words or its score."""
    draft = recognizer.encode_text(spoken_text(one.text, phonemizer))
    request = RecognitionRequest(one.audio, "en", temperature=0.0, draft=draft)
    found = [each for each in recognizer.recognize(request, Timeline(), lambda: False) if each is not None]
    heard = "".join(each.text for each in found)
    result = compare(spoken_words(one.text, phonemizer), spoken_words(heard, phonemizer))
    score = found[0].draft_score if found else None
    return result.passed, result.passed or likely(score, result.words)


def bounds(count: int, of: int) -> tuple[float, float]:
    """Return Wilson's interval of 95 % for `count` of `of`."""
    z, share = 1.96, count / of
    middle, width = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return (middle - width) / (1 + z * z / of), (middle + width) / (1 + z * z / of)


def main(argv: Sequence[str] | None = None) -> None:
    """Judge the model that the arguments name."""
    parser = argparse.ArgumentParser(description="Judge verification by the ear.")
    parser.add_argument("--model", type=Path, default=Path("models/ear"))
    parser.add_argument("--sentences", type=Path, default=VERIFIED)
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    recognizer, phonemizer = load_ear(options.model), get_phonemizer("en-us")
    texts = sentences(options.sentences, options.most)
    good = [one for name in FAULTY for one in say(name, texts) if len(one.audio) > RATE // 2]
    print("| speech | sentences | pass by words alone | pass | of 100, 95 % |")
    print("| --- | ---: | ---: | ---: | --- |")
    found = {}
    for name, said in [("as it was to be said", good), *spoiled(good)]:
        verdicts = [accepts(recognizer, phonemizer, one) for one in said]
        by_words, passed = (sum(each) for each in zip(*verdicts, strict=True))
        low, high = bounds(passed, len(said))
        print(f"| {name} | {len(said)} | {by_words} | {passed} | {low * 100:.1f} to {high * 100:.1f} |", flush=True)
        found[name] = {
            "sentences": len(said), "by_words": by_words, "passed": passed,
            "refused": [one.text for one, each in zip(said, verdicts, strict=True) if not each[1]][:20],
        }  # fmt: skip
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
