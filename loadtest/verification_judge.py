"""How often a language model that is the second judge of verifications errs, on planted faults.

    python -m loadtest.verification_judge MODEL [--sentences tests/real/sentences.txt]

Each sentence is compared with what a recognizer may write for it, without capitals and marks, which is the same; and
with that after one fault: a word left out, said twice, or replaced by one of the next sentence. A false alarm is a
"different" for the same words, a miss a "same" for a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from pathlib import Path
from typing import Final

from app.assembly import Engine
from app.config import load_settings
from app.generation.judge import says_the_same

SENTENCES: Final = Path(__file__).parents[1] / "tests" / "real" / "sentences.txt"


def pairs(sentences: list[str]) -> list[tuple[str, str, str]]:
    """Return kind, sentence and transcript; the faults are the same in every run."""
    draw = random.Random(1)
    result = []
    for number, sentence in enumerate(sentences):
        words = re.findall(r"[\w']+", sentence.lower())
        other = re.findall(r"[\w']+", sentences[(number + 1) % len(sentences)].lower())
        at = draw.randrange(len(words))
        faults = {
            "same": words,
            "left out": words[:at] + words[at + 1 :],
            "said twice": words[: at + 1] + words[at:],
            "replaced": [*words[:at], max(other, key=len), *words[at + 1 :]],
        }
        result += [(kind, sentence, " ".join(each)) for kind, each in faults.items()]
    return result


async def measure(model: str, sentences: list[str]) -> None:
    """Print the share of each kind that is called the same."""
    async with Engine.open(load_settings(None)) as engine:
        found: dict[str, list[bool]] = {}
        for kind, sentence, transcript in pairs(sentences):
            same = await says_the_same(engine.generation, model, sentence, transcript)
            found.setdefault(kind, []).append(same)
    print(f"{model}, {len(sentences)} sentences: called the same")
    for kind, verdicts in found.items():
        print(f"  {kind:10} {100 * sum(verdicts) / len(verdicts):5.1f} %")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    options = parser.parse_args()
    asyncio.run(measure(options.model, options.sentences.read_text(encoding="utf-8").splitlines()))


if __name__ == "__main__":
    main()
