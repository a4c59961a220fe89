"""Measures of speech."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.measure import word_errors, words_of

WORDS = st.lists(st.sampled_from("abcd"), max_size=8)


@pytest.mark.parametrize(
    ("spoken", "heard", "errors"),
    [
        ("the cat sat", "the cat sat", 0),
        ("the cat sat", "the mat sat", 1),
        ("the cat sat", "cat sat", 1),
        ("the cat sat", "the the cat sat down", 2),
        ("the cat sat", "", 3),
        ("", "the cat", 2),
    ],
)
def test_word_errors(spoken: str, heard: str, errors: int) -> None:
    assert word_errors(spoken.split(), heard.split()) == errors


@given(WORDS, WORDS)
def test_word_errors_are_a_distance(one: list[str], other: list[str]) -> None:
    errors = word_errors(one, other)
    assert errors == word_errors(other, one)
    assert (errors == 0) == (one == other)
    assert abs(len(one) - len(other)) <= errors <= max(len(one), len(other))


def test_words_lose_case_and_punctuation_but_not_apostrophes() -> None:
    assert words_of("Please, don’t STOP—it's late!") == ["please", "don't", "stop", "it's", "late"]
