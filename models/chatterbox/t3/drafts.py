"""Guesses of speech tokens ahead of the model, which verifies all of them in one pass (`speculation.accept`).

A wrong guess costs only time: the tokens are distributed as without it. `Lookup` proposes the tokens that followed the
last few when they came before, in the recording or in this speech. `draft_model.SmallT3` asks a smaller T3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.backend import mx
from models.chatterbox.t3.state import DecodeRequest

_MAX_GRAM, _MIN_GRAM = 4, 2  # tokens that must have come before


@dataclass(frozen=True, slots=True)
class Guess:
    """tokens [k] int32, of which the first `count` are guesses and the others padding.

    `chances` [k, V] are the probabilities that they were drawn with; None if they were looked up.
    """

    tokens: mx.array
    count: int
    chances: mx.array | None = None


class Guesser(Protocol):
    """Source of guesses for one request."""

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Guess `most` tokens after `said` (or fewer, padded to as many)."""
        ...


class Draft(Protocol):
    """Maker of guessers. Several requests may be decoded in turns."""

    def begin(self, request: DecodeRequest) -> Guesser:
        """Start a request."""
        ...


class Lookup:
    """Draft that finds the latest place where the last tokens came before, and proposes the tokens that followed."""

    def begin(self, request: DecodeRequest) -> Guesser:
        """Start a request. The recording's tokens count as said."""
        return LookupGuesser(np.array(request.voice.prompt).tolist())


class LookupGuesser:
    """`Lookup` in one request, after the tokens `before`."""

    def __init__(self, before: list[int]) -> None:
        self._before = before

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Guess up to `most` tokens after `said`."""
        found = self._continuation([*self._before, *said])[:most]
        padding = [0] * (most - len(found))
        return Guess(mx.array([*found, *padding], dtype=mx.int32), len(found))

    @staticmethod
    def _continuation(tokens: list[int]) -> list[int]:
        for length in range(_MAX_GRAM, _MIN_GRAM - 1, -1):
            last = tokens[-length:]
            for start in range(len(tokens) - length - 1, -1, -1):
                if tokens[start : start + length] == last:
                    return tokens[start + length :]
        return []
