"""Guesses of speech tokens ahead of the model, and `accept`, by which it verifies all of them in one pass.

A wrong guess costs only time: the tokens are distributed as without it. `Lookup` proposes the tokens that followed the
last few when they came before, in the recording or in this speech. `draft_model.SmallT3` asks a smaller T3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.backend import mx
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.sampling import ACCEPT, DRAW, SamplingMode
from models.chatterbox.t3.state import DecodeRequest, SamplerState

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


def accept(
    logits: mx.array,
    guesses: mx.array,
    real: mx.array,
    chances: mx.array | None,
    sampler: SamplerState,
    mode: SamplingMode,
) -> tuple[mx.array, mx.array]:
    """Choose the guesses that stand by speculative sampling (Leviathan et al. 2023, arXiv:2211.17192).

    The result is distributed as without guesses. A guess x stands if a uniform number is below p(x) / q(x). The token
    after the last that stands is drawn from the part of p above q, or from p if all stand. The penalty at each position
    counts the guesses before it.

    Args:
        logits: [k + 1, V], after the last token and after each guess.
        guesses: [k] int32; the first `real` count.
        real: [1] int32.
        chances: [k, V], the probabilities q that the guesses were drawn with; None if they were looked up.
        sampler: the state before the last token is read.
        mode: the operations to run.

    Returns:
        The number of guesses that stand, [1], and the token drawn after them, [1].
    """
    count, size = guesses.shape[0], logits.shape[-1]
    one = mx.arange(size) == guesses[:, None]
    before = mx.cumsum(one.astype(mx.int32), axis=0) > 0
    seen = mx.concatenate([sampler.seen[None], sampler.seen | before])
    scores = sampling.process(logits, seen, sampler.params, mode)
    p = mx.softmax(scores, axis=-1, precise=True)
    q = one.astype(mx.float32) if chances is None else chances
    steps = mx.split(sampler.place[1:2] + mx.arange(count), count)
    keys = [sampling.key(sampler.seed, ACCEPT, step) for step in steps]
    uniforms = mx.concatenate([mx.random.uniform(shape=(1,), key=key) for key in keys])
    share = mx.sum(mx.where(one, p[:-1], 0), axis=-1)
    stands = (uniforms * mx.sum(mx.where(one, q, 0), axis=-1) < share) & (mx.arange(count) < real)
    accepted = mx.sum(mx.cumprod(stands.astype(mx.int32)), keepdims=True)
    row = mx.take(p, accepted, axis=0)
    drawn_from = mx.take(mx.concatenate([q, mx.zeros((1, size))]), accepted, axis=0)
    rest = mx.where(accepted < real, mx.maximum(row - drawn_from, 0), row)
    # Rounding can leave p below q everywhere: then p itself is the rest.
    rest = mx.where(mx.sum(rest) > 0, rest, row)
    return accepted, sampling.draw(mx.log(rest), sampling.key(sampler.seed, DRAW, sampler.place[1:2] + accepted), mode)
