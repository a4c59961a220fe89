"""Rules and choices of tokens on the device, for every token but the first. `rules` and `search` are the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from models.backend import mx, on_cpu
from models.layers.mel import Floats
from models.layers.transformer.step import checked
from models.whisper.rules import TokenRules

State = tuple[mx.array, mx.array, mx.array]
"""Of each row: its last token; whether the one before it was a timestamp, or there was none; its last timestamp."""
Chosen = tuple[mx.array, mx.array, mx.array, mx.array]
"""Of each row: the token, its log-probability, and what follows the token in State."""
Likeliest = tuple[mx.array, mx.array]
"""Tokens [R, count] in no order, and their log-probabilities."""

_FAR = -float("inf")
_NONE = -1  # in place of a timestamp


class DeviceRules:
    """`TokenRules` for rows of logits [R, size], each with its `State`."""

    def __init__(self, rules: TokenRules, size: int) -> None:
        order = rules.timestamps
        never = np.zeros(size, np.float32)
        never[list(rules.suppressed)] = _FAR
        if order is not None:
            never[order.no_timestamps] = _FAR
        self._edge = size if order is None else order.first
        special = [size if order is None else order.end, self._edge]
        self._never, self._special = mx.array(never), mx.array(special, dtype=mx.int32)
        self._ordered = order is not None

    def state(self, rows: Sequence[Sequence[int]]) -> State:
        """Return the state after the tokens of each row, at least one."""
        last = [tokens[-1] for tokens in rows]
        paired = [len(tokens) < 2 or tokens[-2] >= self._edge for tokens in rows]
        latest = [next((token for token in reversed(tokens) if token >= self._edge), _NONE) for tokens in rows]
        return mx.array(last, dtype=mx.int32), mx.array(paired), mx.array(latest, dtype=mx.int32)

    def choose(self, logits: mx.array, state: State) -> Chosen:
        """Return the likeliest token of each row."""
        return _compiled_choice(self._ordered)(logits, self._never, self._special, *state)

    def likeliest(self, logits: mx.array, state: State, count: int) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the `count` likeliest tokens [R, count] of each row, in no order, and their log-probabilities."""
        chosen = _compiled_likeliest(self._ordered, count)
        tokens, logprobs = chosen(logits, self._never, self._special, *state)
        mx.eval(tokens, logprobs)
        return np.array(tokens), checked(np.array(logprobs))


def _allowed(
    logits: mx.array, never: mx.array, special: mx.array, last: mx.array, paired: mx.array, latest: mx.array
) -> mx.array:
    """Forbid tokens in logits [R, V]: `never` [V] is added; `special` are the end's token and that of 0.00."""
    index, end, first = mx.arange(logits.shape[1]), special[0], special[1]
    closing, paired, edge = (last >= first)[:, None], paired[:, None], latest[:, None]
    single = closing & ~paired
    times = index >= first
    forbidden = (closing & paired & times) | (single & (index < end)) | (times & (index < edge + ~single))
    row = mx.where(forbidden, _FAR, logits + never)
    likely = mx.logsumexp(mx.where(times, row, _FAR), axis=-1) > mx.max(mx.where(times, _FAR, row), axis=-1)
    return mx.where(likely[:, None] & ~times, _FAR, row)


def _choose(
    logits: mx.array, never: mx.array, special: mx.array, last: mx.array, paired: mx.array, latest: mx.array
) -> Chosen:
    token, logprob = _first(_allowed(logits, never, special, last, paired, latest))
    first = special[1]
    return token, logprob, last >= first, mx.where(token >= first, token, latest)


def _choose_text(
    logits: mx.array, never: mx.array, special: mx.array, last: mx.array, paired: mx.array, latest: mx.array
) -> Chosen:
    """Choose in the same form where timestamps have no order."""
    token, logprob = _first(logits + never)
    return token, logprob, paired, latest


def _first(row: mx.array) -> tuple[mx.array, mx.array]:
    """Return the likeliest token [R] of each row, and its log-probability [R]."""
    token = mx.argmax(row, axis=-1).astype(mx.int32)
    chosen = mx.take_along_axis(row, token[:, None], axis=-1)[:, 0]
    return token, chosen - mx.logsumexp(row, axis=-1)


def _most(row: mx.array, count: int) -> Likeliest:
    tokens = mx.argpartition(-row, count - 1, axis=-1)[:, :count]
    chosen = mx.take_along_axis(row, tokens, axis=-1)
    return tokens.astype(mx.int32), chosen - mx.logsumexp(row, axis=-1, keepdims=True)


@cache
def _compiled_choice(ordered: bool) -> Callable[..., Chosen]:
    plain = _choose if ordered else _choose_text
    return plain if on_cpu() else mx.compile(plain)


@cache
def _compiled_likeliest(ordered: bool, count: int) -> Callable[..., Likeliest]:
    def plain(logits: mx.array, never: mx.array, special: mx.array, *state: mx.array) -> Likeliest:
        return _most(_allowed(logits, never, special, *state) if ordered else logits + never, count)

    return plain if on_cpu() else mx.compile(plain)
