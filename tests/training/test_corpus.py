"""Texts to train on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from training.corpus import (
    HELD_OUT,
    TEMPLATES,
    Writer,
    doc_sentences,
    generate,
    held_out_keys,
    key_of,
    main,
    product_phonemizer,
)

ROOT = Path(__file__).parents[2]
SYMBOLS = frozenset(json.loads((ROOT / "models/house/config.json").read_text(encoding="utf-8"))["vocab"])
COUNTS = {"template": 60, "short": 40, "words": 10, "long": 8, "docs": 5}
DOCUMENT = """# The parser reads one line at a time.
#   It stops, and says why, at the first
#   mistake. See RFC 2119 for MUST. The bakery on the corner opens before sunrise.
"""


def spelled(text: str) -> str:
    """Letters for phonemes: the generator only asks that all symbols are known."""
    return "".join(c for c in text.lower() if c in SYMBOLS)


def lines(seed: int) -> list[tuple[str, str]]:
    made = generate(
        spelled, SYMBOLS, seed=seed, counts=COUNTS, vocabulary=["lantern", "quiet", "meadow"], documents=[DOCUMENT]
    )
    return [(line.kind, line.text) for line in made]


def test_equal_seeds_give_equal_corpora() -> None:
    assert lines(3) == lines(3)
    assert lines(3) != lines(4)


def test_every_kind_is_there_without_repeats() -> None:
    made = lines(1)
    assert len(set(made)) == len(made)
    kinds = [kind for kind, _ in made]
    assert kinds.count("template") == 60
    assert kinds.count("short") == 40
    assert kinds.count("words") == 10
    assert kinds.count("long") == 8
    assert kinds.count("docs") == 2


def test_held_out_sentences_are_never_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    held_out = held_out_keys()
    assert len(held_out) == 100 + 120
    assert not {key_of(text) for _, text in lines(5)} & held_out
    # A template that could only make a held-out sentence makes none at all.
    sentence = HELD_OUT.read_text(encoding="utf-8").splitlines()[0]
    monkeypatch.setattr("training.corpus.TEMPLATES", [sentence])
    assert not [text for kind, text in lines(5) if kind == "template"]


def test_documents_give_plain_sentences_only() -> None:
    assert list(doc_sentences(DOCUMENT)) == [
        "The parser reads one line at a time.",
        "It stops, and says why, at the first mistake.",
        "The bakery on the corner opens before sunrise.",
    ]


def test_every_template_can_be_filled() -> None:
    writer = Writer(random.Random(0), ["lantern"])
    for template in TEMPLATES:
        text = writer.fill(template)
        assert "{" not in text
        assert not text[:1].islower()


def test_an_article_agrees_with_its_noun() -> None:
    writer = Writer(random.Random(0), ["lantern"])
    assert writer.fill("a apple and a pear") == "An apple and a pear"


def test_the_command_writes_phonemes_of_the_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "corpus.tsv"
    counts = ["--template-count=20", "--short-count=20", "--words-count=5", "--long-count=3", "--docs-count=0"]
    main(["--out", str(out), "--config", str(ROOT / "models/house/config.json"), *counts])
    rows = [row.split("\t") for row in out.read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 40
    assert f"{len(rows)} utterances" in capsys.readouterr().out
    phonemize = product_phonemizer()
    for kind, text, phonemes in rows:
        assert kind in COUNTS
        assert phonemes == phonemize(text)
        assert set(phonemes) <= SYMBOLS
