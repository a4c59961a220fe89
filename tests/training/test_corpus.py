"""Texts to train on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from training import corpus
from training.voices import READERS

ROOT = Path(__file__).parents[2]
SYMBOLS = frozenset(json.loads((ROOT / "models/house/config.json").read_text(encoding="utf-8"))["vocab"])
COUNTS = {"template": 60, "short": 40, "words": 10, "long": 8}
DOCUMENT = """# The parser reads one line at a time.
#   It stops, and says why, at the first
#   mistake. See RFC 2119 for MUST. The bakery on the corner opens before sunrise.
"""


def texts(seed: int) -> list[str]:
    return corpus.generated(random.Random(seed), COUNTS, ["lantern", "quiet", "meadow"], corpus.held_out_keys())


def test_equal_seeds_give_equal_corpora() -> None:
    assert texts(3) == texts(3)
    assert texts(3) != texts(4)


def test_every_kind_is_there_without_repeats() -> None:
    made = texts(1)
    assert len(set(made)) == len(made) == sum(COUNTS.values())


def test_held_out_sentences_are_never_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    held_out = corpus.held_out_keys()
    assert len(held_out) == 100 + 120
    assert not {corpus.key_of(text) for text in texts(5)} & held_out
    # A template that could only make a held-out sentence makes none at all.
    sentence = corpus.HELD_OUT.read_text(encoding="utf-8").splitlines()[0]
    monkeypatch.setattr("training.corpus.TEMPLATES", [sentence])
    assert len(texts(5)) == sum(COUNTS.values()) - COUNTS["template"]


def test_documents_give_plain_sentences_only() -> None:
    assert list(corpus.doc_sentences(DOCUMENT)) == [
        "The parser reads one line at a time.",
        "It stops, and says why, at the first mistake.",
        "The bakery on the corner opens before sunrise.",
    ]


def test_a_marked_text_keeps_its_words() -> None:
    rng, text = random.Random(0), "The dog runs home."
    made = {corpus.marked(text, rng) for _ in range(60)}
    assert "The dog runs home?" in made
    assert any(set("“”") & set(each) for each in made)
    assert {corpus.key_of(each) for each in made} == {corpus.key_of(text)}


def test_phrases_have_numbers_in_place_of_their_slots() -> None:
    for language in ("en", "es", "fr", "it", "pt"):
        made = corpus.phrases(language, random.Random(0))
        assert len(made) > 60
        assert not [text for text in made if "{" in text]


def test_every_template_can_be_filled() -> None:
    writer = corpus.Writer(random.Random(0), ["lantern"])
    for template in corpus.TEMPLATES:
        text = writer.fill(template)
        assert "{" not in text
        assert not text[:1].islower()


def test_an_article_agrees_with_its_noun() -> None:
    writer = corpus.Writer(random.Random(0), ["lantern"])
    assert writer.fill("a apple and a pear") == "An apple and a pear"


def test_the_command_writes_phonemes_of_the_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, prose = tmp_path / "corpus.tsv", tmp_path / "prose"
    prose.mkdir()
    (prose / "libro.txt").write_text("El tren de la costa sale a las nueve de la mañana.\n", encoding="utf-8")
    counts = ["--template-count=20", "--short-count=20", "--words-count=5", "--long-count=3"]
    config = str(ROOT / "models/house/config.json")
    corpus.main(["--out", str(out), "--config", config, *counts, "--prose", f"es={prose}"])
    rows = [row.split("\t") for row in out.read_text(encoding="utf-8").splitlines()]
    assert f"{len(rows)} lines" in capsys.readouterr().out
    assert {row[0] for row in rows} == set(READERS)
    assert "El tren de la costa sale a las nueve de la mañana." in {row[1] for row in rows if row[0] == "es"}
    for language in READERS:
        phonemize = corpus.product_phonemizer(language)
        for _, text, phonemes in [row for row in rows if row[0] == language][:10]:
            assert phonemes == phonemize(text)
            assert set(phonemes) <= SYMBOLS
