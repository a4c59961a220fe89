"""Phonemes to token ids."""

from __future__ import annotations

import pytest

from models.contract import InputTooLongError, ModelRequestError
from models.kokoro.text import tokenize

VOCAB = {"a": 5, "b": 6, " ": 16}


def test_boundaries_and_places() -> None:
    assert tokenize("ab a", VOCAB, 10) == ([0, 5, 6, 16, 5, 0], [1, 2, 3, 4])


def test_unknown_characters_are_dropped_and_share_the_place_before() -> None:
    """Before the first known one that is the opening boundary."""
    assert tokenize("?a?!b", VOCAB, 10) == ([0, 5, 6, 0], [0, 1, 1, 1, 2])


@pytest.mark.parametrize("phonemes", ["", "???"])
def test_nothing_to_speak(phonemes: str) -> None:
    with pytest.raises(ModelRequestError, match="nothing to speak"):
        tokenize(phonemes, VOCAB, 10)


def test_the_limit_counts_known_phonemes() -> None:
    assert len(tokenize("a" * 10 + "?", VOCAB, 10)[0]) == 12
    with pytest.raises(InputTooLongError, match="11 phonemes in one utterance; at most 10"):
        tokenize("a" * 11, VOCAB, 10)
