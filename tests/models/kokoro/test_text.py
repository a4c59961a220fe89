"""Phonemes to token ids."""

from __future__ import annotations

from models.kokoro.text import tokenize

VOCAB = {"a": 5, "b": 6, " ": 16}


def test_boundaries_and_places() -> None:
    assert tokenize("ab a", VOCAB, 10) == ([0, 5, 6, 16, 5, 0], [1, 2, 3, 4])


def test_unknown_characters_are_dropped_and_share_the_place_before() -> None:
    """Before the first known one that is the opening boundary."""
    assert tokenize("?a?!b", VOCAB, 10) == ([0, 5, 6, 0], [0, 1, 1, 1, 2])
