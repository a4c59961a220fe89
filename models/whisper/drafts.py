"""Greedy search that verifies a draft: many tokens in one pass of the network, and the same result as without it.

A pass feeds the last token and what the draft says next; the network's own choice after each of them is the transcript.
Where it differs from the draft, later rows are dropped: their keys and values are masked until they are overwritten.
The draft is taken up again where the transcript comes back to it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from models.contract import Cancelled, IsCancelled
from models.layers.mel import Floats
from models.whisper.rules import TokenRules
from models.whisper.search import STEPS_A_TURN, Sampled, WindowTask
from models.whisper.steps import Memory, Steps

_MAX_PASSES = 16  # that verify a piece of the draft; then token by token
_REACH = 24  # draft tokens that are searched for the place where the transcript comes back
_MATCH = 2  # tokens that agree there


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of a search with a draft.

    `first` are the logits [V] at the task's `start`, before any rule. `accepted` counts the tokens of the draft that
    are in the transcript, `used` those that lie before its end; `passes` the runs of the decoder.
    """

    first: Floats
    accepted: int
    used: int
    passes: int


def resynchronized(sampled: Sequence[int], draft: Sequence[int], at: int) -> int | None:
    """Return the place in `draft` that follows the last tokens of `sampled`; None: they are not in it.

    `at` is the first place of the draft that the transcript left.
    """
    last = list(sampled[-_MATCH:])
    for place in range(at, min(at + _REACH, len(draft) - len(last))):
        if last and list(draft[place : place + len(last)]) == last:
            return place + len(last)
    if sampled and at + 1 < len(draft) and draft[at + 1] == sampled[-1]:  # one token was another
        return at + 2
    return None


def search_draft(
    steps: Steps,
    memory: Memory,
    task: WindowTask,
    state: Sampled,
    rules: TokenRules,
    draft: Sequence[int],
    cancelled: IsCancelled,
) -> Generator[None, None, Verified]:
    """Run `state`, one row at temperature 0 of one window, until it is done. Yields every few passes.

    Args:
        steps: The network.
        memory: The encoded window.
        task: Its prompt and limit.
        state: Gets the tokens, as in `search`.
        rules: Tokens that may come next.
        draft: Text tokens that were probably said.
        cancelled: Asked between passes.

    Raises:
        Cancelled: Between passes.
    """
    sampled, prompt = state.sampled[0], list(task.prompt)
    rest = list(draft[: task.limit - 1])
    group, logits, first = steps.begin_draft([*prompt, *rest], memory, len(prompt) + task.limit, task.start)
    logits = logits[len(prompt) - 1 :]
    accepted, at, passes, verified = 0, 0, 1, 1
    while True:
        if cancelled():
            raise Cancelled("cancelled between steps of recognition")
        for row in range(len(rest) + 1):
            scores = logits[row : row + 1]
            if rest and _is_close(scores, rules, state.sampled, steps.margin):
                group.place = len(prompt) + len(sampled) - 1
                scores = steps.step([sampled[-1] if sampled else prompt[-1]], group)
                passes += 1
            rules.apply(scores, state.sampled)
            _, done = state.advance(scores)
            agrees = at < len(draft) and sampled[-1] == draft[at]
            accepted, at = accepted + agrees, at + agrees
            if done or len(sampled) >= task.limit:
                return Verified(first, accepted, at, passes)
            if not agrees:
                break
        place = at if agrees else resynchronized(sampled, draft, at)
        group.place = len(prompt) + len(sampled) - 1
        if place is None or place >= len(draft) or verified == _MAX_PASSES:
            rest = []
            logits = steps.step([sampled[-1]], group)
        else:
            at, verified = place, verified + 1
            rest = list(draft[at : at + task.limit - len(sampled) - 1])
            logits = steps.extend([sampled[-1], *rest], group)
        passes += 1
        if passes % STEPS_A_TURN == 0:
            yield


def _is_close(logits: Floats, rules: TokenRules, sampled: Sequence[Sequence[int]], margin: float) -> bool:
    """Return whether rounding could change which token is the likeliest of logits [1, V]."""
    allowed = logits.copy()
    rules.apply(allowed, sampled)
    second, best = np.partition(allowed[0], -2)[-2:]
    return bool(best - second < margin)
