"""Greedy search on a GPU: tokens are chosen there, so that a step is sent before the host has read the last one."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from models.backend import mx
from models.contract import Cancelled, IsCancelled
from models.layers.transformer.step import checked
from models.whisper.device_rules import DeviceRules
from models.whisper.rules import Floats, TokenRules
from models.whisper.search import STEPS_A_TURN, Sampled, WindowTask
from models.whisper.steps import Memory, Steps, WindowBatch


class _Chooser:
    """Steps of a group with its rules, each sent when the next is asked for."""

    def __init__(self, steps: Steps, group: WindowBatch, rules: TokenRules, first: Sequence[int]) -> None:
        """Begin after the `first` token of each row."""
        self._rules = DeviceRules(rules, steps.config.n_vocab)
        self._steps, self._group = steps, group
        self._place = mx.array([group.place])
        self._state = self._rules.state([[token] for token in first])

    def next(self) -> tuple[mx.array, mx.array]:
        """Send a step -> each row's token [R] and its log-probability [R], which are under way."""
        logits, self._place = self._steps.advance(self._state[0][:, None], self._place, self._group)
        token, logprob, paired, latest = self._rules.choose(logits, self._state)
        self._state = token, paired, latest
        mx.async_eval(token, logprob, paired, latest)
        return token, logprob


def greedy(
    steps: Steps,
    memory: Memory,
    tasks: Sequence[WindowTask],
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
    live = set()
    for row, (state, task) in enumerate(zip(states, tasks, strict=True)):
        _, done = state.advance(logits[row : row + 1])
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
        tokens, values = np.array(made[0]).tolist(), checked(np.array(made[1]))
        for row in sorted(live):
            if states[row].append(0, tokens[row], values[row]) or number == tasks[row].limit:
                live.discard(row)
        if not live:
            break
        made = following
        if number % STEPS_A_TURN == 0:
            yield
    return list(first)
