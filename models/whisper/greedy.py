"""Greedy search on a GPU: tokens are chosen there, so that a step is sent before the host has read the last one.

Rules, choice and probabilities are those of `rules` and `search`, which are the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache

import numpy as np

from models.backend import mx, on_cpu
from models.contract import Cancelled, IsCancelled
from models.whisper.rules import Floats, TokenRules, log_sum_exp
from models.whisper.search import STEPS_A_TURN, Sampled, SearchTask
from models.whisper.steps import Group, Memory, Steps

State = tuple[mx.array, mx.array, mx.array]
"""Of each row: its last token; whether the one before it was a timestamp, or there was none; its last timestamp."""
Chosen = tuple[mx.array, mx.array, mx.array, mx.array]
"""Of each row: the token, its log-probability, and what follows the token in State."""

_FAR = -float("inf")
_NONE = -1  # in place of a timestamp


def _choose(
    logits: mx.array, never: mx.array, special: mx.array, last: mx.array, paired: mx.array, latest: mx.array
) -> Chosen:
    """Choose by logits [R, V] after `never` [V] is added; `special` are the end's token and that of 0.00."""
    index, end, first = mx.arange(logits.shape[1]), special[0], special[1]
    closing, paired, edge = (last >= first)[:, None], paired[:, None], latest[:, None]
    single = closing & ~paired
    times = index >= first
    forbidden = (closing & paired & times) | (single & (index < end)) | (times & (index < edge + ~single))
    row = mx.where(forbidden, _FAR, logits + never)
    likely = mx.logsumexp(mx.where(times, row, _FAR), axis=-1) > mx.max(mx.where(times, _FAR, row), axis=-1)
    row = mx.where(likely[:, None] & ~times, _FAR, row)
    token, logprob = _likeliest(row)
    return token, logprob, closing[:, 0], mx.where(token >= first, token, latest)


def _choose_text(
    logits: mx.array, never: mx.array, special: mx.array, last: mx.array, paired: mx.array, latest: mx.array
) -> Chosen:
    """Choose in the same form where timestamps have no order."""
    token, logprob = _likeliest(logits + never)
    return token, logprob, paired, latest


def _likeliest(row: mx.array) -> tuple[mx.array, mx.array]:
    token = mx.argmax(row, axis=-1).astype(mx.int32)
    chosen = mx.take_along_axis(row, token[:, None], axis=-1)[:, 0]
    return token, chosen - mx.logsumexp(row, axis=-1)


@cache
def _compiled(ordered: bool) -> Callable[..., Chosen]:
    plain = _choose if ordered else _choose_text
    return plain if on_cpu() else mx.compile(plain)


class _Chooser:
    """Steps of a group with its rules, each sent when the next is asked for."""

    def __init__(self, steps: Steps, group: Group, rules: TokenRules, first: Sequence[int]) -> None:
        """Begin after the `first` token of each row."""
        order = rules.timestamps
        never = np.zeros(steps.config.n_vocab, np.float32)
        never[list(rules.suppressed)] = _FAR
        if order is not None:
            never[order.no_timestamps] = _FAR
        edge = steps.config.n_vocab if order is None else order.first
        special = [steps.config.n_vocab if order is None else order.end, edge]
        self._never, self._special = mx.array(never), mx.array(special, dtype=mx.int32)
        self._steps, self._group, self._choose = steps, group, _compiled(order is not None)
        self._place = mx.array([group.place])
        tokens = np.array(first, np.int32)
        self._state: State = (
            mx.array(tokens),
            mx.array(np.ones(len(tokens), bool)),
            mx.array(np.where(tokens >= edge, tokens, _NONE).astype(np.int32)),
        )

    def next(self) -> tuple[mx.array, mx.array]:
        """Send a step -> each row's token [R] and its log-probability [R], which are under way."""
        logits, self._place = self._steps.advance(self._state[0][:, None], self._place, self._group)
        token, logprob, paired, latest = self._choose(logits, self._never, self._special, *self._state)
        self._state = token, paired, latest
        mx.async_eval(token, logprob, paired, latest)
        return token, logprob


def greedy(
    steps: Steps,
    memory: Memory,
    tasks: Sequence[SearchTask],
    states: Sequence[Sampled],
    rules: TokenRules,
    cancelled: IsCancelled,
) -> Generator[None, None, list[Floats]]:
    """Run `states`, one row at temperature 0 each, as `search.search` does. Yields every few steps.

    The first token is chosen by the host, which has the logits of the beginning anyway.
    """
    longest = max(task.limit for task in tasks)
    prompts = [task.prompt for task in tasks]
    group, logits, first = steps.begin(prompts, memory, 1, len(prompts[0]) + longest, tasks[0].start)
    rules.apply(logits, [state.sampled[0] for state in states])
    logprobs = logits - log_sum_exp(logits)
    live = set()
    for row, (state, task) in enumerate(zip(states, tasks, strict=True)):
        _, done = state.advance(logprobs[row : row + 1], logits[row : row + 1])
        if not done and task.limit > 1:
            live.add(row)
    if not live:
        return list(first)
    chooser = _Chooser(steps, group, rules, [state.sampled[0][-1] for state in states])
    made = chooser.next()
    for number in range(2, longest + 1):
        if cancelled():
            raise Cancelled("cancelled between steps of recognition")
        following = chooser.next() if number < longest else made
        tokens, values = np.array(made[0]).tolist(), np.array(made[1])
        for row in sorted(live):
            if states[row].append(0, tokens[row], values[row]) or number == tasks[row].limit:
                live.discard(row)
        if not live:
            break
        made = following
        if number % STEPS_A_TURN == 0:
            yield
    return list(first)
