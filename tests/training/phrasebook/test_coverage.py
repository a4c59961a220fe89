"""The shipped coverage.json against the grammar it is made from."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from models.contract import OutsideCoverageError
from models.nllb.coverage import MAX_CHARACTERS, Coverage
from training.phrasebook.coverage import EXAMPLES, coverage, main
from training.phrasebook.english import CONTRACTIONS
from training.phrasebook.grammar import sentences
from training.phrasebook.lexicon import TARGETS
from training.phrasebook.tokens import CODES

SHIPPED = Path(__file__).parents[3] / "models/phrasebook/coverage.json"


@pytest.fixture(scope="module")
def shipped() -> Coverage:
    return Coverage.read(SHIPPED)


def test_the_shipped_file_is_what_the_grammar_makes(tmp_path: Path) -> None:
    assert json.loads(SHIPPED.read_text(encoding="utf-8")) == coverage()
    main([str(tmp_path / "coverage.json")])
    assert (tmp_path / "coverage.json").read_text(encoding="utf-8") == SHIPPED.read_text(encoding="utf-8")


@pytest.mark.parametrize("held_out", [False, True])
def test_every_sentence_of_the_grammar_is_covered(shipped: Coverage, held_out: bool) -> None:
    for pair in islice(sentences(21, held_out=held_out), 3000):
        english = pair.texts["en"]
        assert len(english) < MAX_CHARACTERS
        for target in TARGETS:
            shipped.check(english, "eng_Latn", CODES[target])
        for short, long in CONTRACTIONS.items():
            english = english.lower().replace(f" {long} ", f" {short} ")
        shipped.check(english.rstrip(".?!"), "eng_Latn", "deu_Latn")


def test_its_examples_are_covered(shipped: Coverage) -> None:
    for example in EXAMPLES:
        shipped.check(example, "eng_Latn", "fra_Latn")


@pytest.mark.parametrize(
    "text",
    [
        "She am tired.",
        "I buys the book.",
        "My brother close the door.",
        "He is going to bought the car.",
        "There are three cup in the kitchen.",
        "The weather is nice today, and the train leaves in the morning.",
        "To be, or not to be, that is the question.",
    ],
)
def test_other_sentences_are_not(shipped: Coverage, text: str) -> None:
    with pytest.raises(OutsideCoverageError):
        shipped.check(text, "eng_Latn", "spa_Latn")
