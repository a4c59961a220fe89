"""Judge a phrase book by the product's own runtime, on combinations of words that training never saw.

    python -m training.phrasebook.evaluate build/phrasebook/model --out training/phrasebook/results/shipped

Writes `summary.md` and `wrong.csv`. `--sample FILE` instead writes held-out pairs for the tests.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from models.contract import ModelSpec, TranslationRequest
from models.nllb.pipeline import NllbTranslator, load
from models.timeline import Timeline
from training.phrasebook.grammar import Pair, sentences
from training.phrasebook.lexicon import TARGETS
from training.phrasebook.tokens import CODES

SEED = 2026
ROLES = {
    "config": "config.json",
    "weights": "model.safetensors",
    "tokenizer": "tokenizer.json",
    "coverage": "coverage.json",
}


def translator(folder: Path) -> NllbTranslator:
    """The checkpoint in `folder`, as the product loads it."""
    return load(ModelSpec("phrasebook", "nllb", {role: str(folder / name) for role, name in ROLES.items()}))


def distinct(seed: int, count: int) -> list[Pair]:
    """Held-out sentences, no two alike, every template equally likely."""
    found: dict[str, Pair] = {}
    for pair in sentences(seed, held_out=True):
        found.setdefault(pair.texts["en"], pair)
        if len(found) == count:
            break
    return list(found.values())


def translations(model: NllbTranslator, texts: Sequence[str], target: str) -> Iterator[str]:
    """Greedy, in the order of `texts`."""
    rest = iter(texts)
    while batch := list(islice(rest, model.max_batch)):
        requests = [TranslationRequest(text, CODES["en"], target) for text in batch]
        done = {one.index: one.best.text for one in model.translate(requests, Timeline(), lambda: False) if one}
        yield from (done[index] for index in range(len(batch)))


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, or write a sample."""
    parser = argparse.ArgumentParser(description="Judge a phrase book on held-out sentences.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("models/phrasebook"))
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sample", type=Path)
    options = parser.parse_args(argv)
    pairs = distinct(options.seed, options.count)
    if options.sample:
        rows = [pair.texts for pair in pairs]
        text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"
        options.sample.write_text(text, encoding="utf-8")
        return
    model, wrong, lines = translator(options.folder), [], []
    for language in TARGETS:
        made = translations(model, [pair.texts["en"] for pair in pairs], CODES[language])
        missed = [(pair, text) for pair, text in zip(pairs, made, strict=True) if text != pair.texts[language]]
        wrong += [(language, pair.texts["en"], pair.texts[language], text, pair.template) for pair, text in missed]
        lines.append(f"| {language} | {len(pairs)} | {1 - len(missed) / len(pairs):.2%} |")
        print(lines[-1], flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        head = f"Held-out sentences, seed {options.seed}, greedy; exactly right, letter by letter.\n"
        table = "\n".join(["| target | sentences | exactly right |", "| --- | ---: | ---: |", *lines])
        (options.out / "summary.md").write_text(f"{head}\n{table}\n", encoding="utf-8")
        with (options.out / "wrong.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["target", "english", "grammar", "model", "template"])
            rows.writerows(wrong)


if __name__ == "__main__":
    main()
