"""Comparison of texts with what was heard of them."""

from __future__ import annotations

import pytest

from app.speech import verification
from app.text.planner import get_phonemizer


def words(text: str) -> list[verification.SpokenWord]:
    return verification.spoken_words(text, get_phonemizer("en-us"))


def heard(text: str, instead: str) -> verification.Comparison:
    return verification.compare(words(text), words(instead))


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("On 3 May, 12 people paid $7.50.", "on the third of may twelve people paid seven dollars and fifty cents"),
        ("Dr. Smith isn't in; call 911!", "doctor smith isn't in call nine one one"),
        ("Their son knows the way.", "there sun nose the weigh"),
        ("Ice cream in the after-noon", "icecream in the afternoon"),
        ("The notebook is in the firehouse.", "the note book is in the fire house"),
        ("Hello, world.", "HELLO WORLD"),
    ],
)
def test_the_same_words_are_equal(text: str, instead: str) -> None:
    found = heard(text, instead)
    assert (found.errors, found.longest, found.added, found.passed) == (0, 0, 0, True)


@pytest.mark.parametrize(
    ("text", "instead", "found"),
    [
        ("the dog runs home", "the dog ran home", verification.Comparison(4, 1, 1, 0, 1)),
        ("the dog runs home", "the dog home", verification.Comparison(4, 1, 1, 0, 4)),
        ("the dog runs home", "the dog runs runs home", verification.Comparison(4, 1, 1, 0, 0)),
        ("the dog runs home", "the dog runs home again now", verification.Comparison(4, 2, 2, 2, 0)),
        ("the dog runs home", "", verification.Comparison(4, 4, 4, 0, 12)),
        ("one two three four five six", "one nine ten eleven five six", verification.Comparison(6, 3, 3, 0, 0)),
    ],
)
def test_differences_are_counted(text: str, instead: str, found: verification.Comparison) -> None:
    assert heard(text, instead) == found


LONG = "the weather is fine today and the train leaves in the morning so we take our bags to the station"


@pytest.mark.parametrize(
    ("text", "instead", "passed"),
    [
        ("the dog runs home", "the dog ran home", True),
        ("the dog runs home", "a dog ran home", False),
        ("the dog runs home", "the dog runs home yes", False),
        (LONG, LONG.replace("fine", "five").replace("our", "hour"), True),
        (LONG, LONG.replace("and the train leaves in", ""), False),
        (LONG, LONG.replace("so we take our", "no me cake far"), False),
        (LONG, f"{LONG} station", False),
        (LONG, LONG.replace("station", "nation"), True),
        (LONG, LONG.replace("weather", ""), False),
        (
            "We need more chairs, because twelve people are coming tonight.",
            "We need more chairs because people are coming tonight.",
            False,
        ),
        (
            "The company sold most of its factories during the last decade.",
            "The company sold most of its facts during the last decade.",
            False,
        ),
        ("The Schuylkill river flows into the Delaware.", "The Shaoqal River flows into the Delaware.", True),
        (LONG, "", False),
    ],
)
def test_a_listener_accepts_it_or_not(text: str, instead: str, passed: bool) -> None:
    assert heard(text, instead).passed is passed


def test_a_text_without_words_has_none() -> None:
    assert words("...") == []
    assert verification.compare([], []).passed
    assert not verification.compare([], words("hello there")).passed


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        (
            "On 3 May, Dr. Smith's 12 people paid $7.50; didn't they? \"Yes\"!",
            "On the third of May, doctor Smith's twelve people paid seven dollars and fifty cents, didn't they? Yes!",
        ),
        ("An ice-cold after-noon (2 PM) …", "An ice cold after noon, two P M,"),
    ],
)
def test_the_spoken_text_has_words_and_the_marks_that_are_heard(text: str, spoken: str) -> None:
    assert verification.spoken_text(text, get_phonemizer("en-us")) == spoken


def test_a_score_passes_a_sentence_by_the_root_of_its_words() -> None:
    assert verification.likely(-verification.MAX_UNLIKELINESS * 3, 9)
    assert not verification.likely(-verification.MAX_UNLIKELINESS * 3 - 0.1, 9)
    assert verification.likely(5.0, 0)
    assert not verification.likely(None, 9)
    assert not verification.likely(float("-inf"), 9)
