"""The automaton that refuses what a demonstrator was not made for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.contract import ModelRequestError, OutsideCoverageError, UnknownLanguageError, WeightsError
from models.nllb.coverage import MAX_CHARACTERS, Coverage

CONTENT = {
    "model": "phrasebook",
    "pairs": [["eng_Latn", "spa_Latn"], ["eng_Latn", "deu_Latn"]],
    "phrases": [
        "where is the {place}",
        "I would like a {food}",
        "{opener}, I would like a {food}",
        "{food} and {food}",
    ],
    "slots": {
        "place": ["bank", "bank branch", "post office"],
        "food": ["apple", "glass of water", "glass"],
        "opener": ["hello", "good morning"],
    },
    "contractions": {"i'd": "i would", "where's": "where is"},
    "examples": ["Where is the bank?"],
}

DEMO = {"model": "demo", "contractions": {}, "examples": ["a a a"]}


@pytest.fixture(scope="module")
def coverage(tmp_path_factory: pytest.TempPathFactory) -> Coverage:
    path = tmp_path_factory.mktemp("coverage") / "coverage.json"
    path.write_text(json.dumps(CONTENT), encoding="utf-8")
    return Coverage.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "Where is the bank?",
        "Where is the bank branch?",
        "where's the POST OFFICE",
        "I’d like an apple!",
        "  I would  like a glass of water …",
        "Good morning, I would like a glass.",
        "Apple and glass of water.",
    ],
)
def test_phrases_are_accepted_whatever_their_case_and_mark(coverage: Coverage, text: str) -> None:
    coverage.check(text, "eng_Latn", "spa_Latn")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I would like a zebra.", 'it does not know "zebra"'),
        ("I would like a glass of milk.", 'it does not know "milk"'),
        ("I would like a bank.", 'no phrase of it has "bank" after "i would like a"'),
        ("bank", 'no phrase of it has "bank" at the beginning'),
        ("Where is the", "no phrase of it ends there"),
        ("Where is the post?", "no phrase of it ends there"),
        ("Where is the bank, hello", 'no phrase of it has "," after "where is the bank"'),
        ("...", "there is no phrase in it"),
        ("apple " * 60, "shorter than the 360 characters"),
    ],
)
def test_what_is_refused_says_what_the_model_is_and_why(coverage: Coverage, text: str, why: str) -> None:
    with pytest.raises(OutsideCoverageError) as refused:
        coverage.check(text, "eng_Latn", "deu_Latn")
    message = str(refused.value)
    assert why in message
    assert "phrase-book demonstrator" in message
    assert "Where is the bank?" in message
    assert len(message) < 400


@pytest.mark.parametrize("pair", [("spa_Latn", "eng_Latn"), ("eng_Latn", "fra_Latn"), ("eng_Latn", "eng_Latn")])
def test_other_directions_are_refused(coverage: Coverage, pair: tuple[str, str]) -> None:
    with pytest.raises(UnknownLanguageError, match="eng_Latn to spa_Latn"):
        coverage.check("Where is the bank?", *pair)


def test_its_pairs_and_examples_can_be_listed(coverage: Coverage) -> None:
    assert coverage.pairs == (("eng_Latn", "spa_Latn"), ("eng_Latn", "deu_Latn"))
    assert coverage.examples == ("Where is the bank?",)
    assert coverage.model == "phrasebook"


@given(st.text(max_size=MAX_CHARACTERS + 20))
def test_any_text_is_answered_or_refused(text: str) -> None:
    slots = {"x": ["a", "a a", "a a a"]}
    found = Coverage(DEMO | {"pairs": [("a", "b")], "phrases": ["{x} {x} {x}"], "slots": slots})
    try:
        found.check(text, "a", "b")
    except ModelRequestError as error:
        assert "demonstrator" in str(error)


def test_ambiguous_phrases_take_no_exponential_time() -> None:
    """Every word could end a slot entry or go on with it: backtracking would try 2 ** 100 ways."""
    phrases = [" ".join(["{x}"] * count) for count in range(1, 120)]
    found = Coverage(DEMO | {"pairs": [("s", "t")], "phrases": phrases, "slots": {"x": ["a", "a a"]}})
    found.check("a " * 119, "s", "t")
    with pytest.raises(OutsideCoverageError):
        found.check("a " * 119 + "b", "s", "t")


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": [["eng_Latn"]]},
        {"phrases": ["where is {nowhere}"]},
        {"phrases": [""]},
        {"slots": None},
        {"contractions": 3},
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(CONTENT | change), encoding="utf-8")
    with pytest.raises(WeightsError, match=r"coverage\.json"):
        Coverage.read(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="not a coverage"):
        Coverage.read(tmp_path / "coverage.json")
