"""Greedy search, samples and beam search over a group of windows, a token at a time.

On a GPU `greedy` chooses tokens there, so that a step is sent before the host has read the last one.

Beam search follows openai-whisper: the `beams` likeliest continuations of all hypotheses run on, finished ones are kept
until there are round(beams * patience) of them. Results are ranked by their mean log-probability.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.contract import Cancelled, IsCancelled
from models.layers.mel import Floats
from models.layers.transformer.step import checked
from models.whisper.device_rules import DeviceRules
from models.whisper.rules import TokenRules, log_sum_exp
from models.whisper.steps import Memory, Steps, read

STEPS_A_TURN = 4  # after so many steps the thread may do other work
_FOLD = 64  # numbers of a row that are one column


@dataclass(frozen=True, slots=True)
class WindowTask:
    """One window: its `prompt`, the place of the start token in it, and at most `limit` tokens of transcript."""

    prompt: Sequence[int]
    start: int
    limit: int


@dataclass(slots=True)
class TranscriptHypothesis:
    """Tokens of a transcript without prompt and end, and the log-probability of each.

    `sum_logprob` is their sum, that of the end included.
    """

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sum_logprob: float = 0.0

    def score(self) -> float:
        """Return the sum over the length."""
        return self.sum_logprob / max(len(self.tokens), 1)


class Sampled:
    """Rows that go on by themselves: the likeliest token at temperature 0, a drawn one above."""

    def __init__(self, rows: int, end: int, temperature: float, draw: np.random.Generator) -> None:
        self.sampled: list[list[int]] = [[] for _ in range(rows)]
        self._logprobs: list[list[float]] = [[] for _ in range(rows)]
        self._sums = np.zeros(rows, np.float32)
        self._end, self._temperature, self._draw = end, temperature, draw

    def advance(self, logits: Floats) -> tuple[list[int], bool]:
        """Extend each row that has not ended, by logits [rows, V]; an ended one gets another end.

        Returns the parent of each new row, and whether the window is done, as `Beam` does.
        """
        logprobs = logits - log_sum_exp(logits)
        if self._temperature == 0:
            chosen = logits.argmax(axis=-1)
        else:
            noise = self._draw.gumbel(size=logits.shape)
            chosen = (logits / self._temperature + noise).argmax(axis=-1)
        done = True
        for row, (tokens, token) in enumerate(zip(self.sampled, chosen.tolist(), strict=True)):
            if tokens and tokens[-1] == self._end:
                tokens.append(self._end)
                continue
            done = self.append(row, token, logprobs[row, token]) and done
        return list(range(len(self.sampled))), done

    def append(self, row: int, token: int, logprob: np.float32) -> bool:
        """Extend a row that has not ended -> whether this token ends it."""
        self._sums[row] += logprob
        self.sampled[row].append(token)
        self._logprobs[row].append(float(logprob))
        return token == self._end

    def hypotheses(self) -> list[TranscriptHypothesis]:
        """Return every row, cut at its end."""
        found = []
        for tokens, each, total in zip(self.sampled, self._logprobs, self._sums.tolist(), strict=True):
            length = tokens.index(self._end) if self._end in tokens else len(tokens)
            found.append(TranscriptHypothesis(tokens[:length], each[:length], total))
        return found


def likeliest(x: Floats, count: int) -> npt.NDArray[np.intp]:
    """Return the places of the `count` largest of each row of x [R, V], in no order: [R, count].

    They lie in the `count` columns with the largest maxima of the folded row, which are few numbers to sort.
    """
    rows, size = x.shape
    columns = size // _FOLD
    if columns <= count:
        return np.argpartition(-x, count - 1, axis=-1)[:, :count]
    folded = columns * _FOLD
    maxima = x[:, :folded].reshape(rows, _FOLD, columns).max(axis=1)
    chosen = np.argpartition(-maxima, count - 1, axis=-1)[:, :count]
    places = (chosen[:, None] + np.arange(0, folded, columns)[:, None]).reshape(rows, -1)
    rest = np.broadcast_to(np.arange(folded, size), (rows, size - folded))
    places = np.concatenate([places, rest], axis=1)
    best = np.argpartition(-np.take_along_axis(x, places, axis=1), count - 1, axis=-1)[:, :count]
    return np.take_along_axis(places, best, axis=1)


class Beam:
    """Hypotheses of beam search, and the finished ones."""

    def __init__(self, beams: int, end: int, patience: float) -> None:
        self.sampled: list[list[int]] = [[] for _ in range(beams)]
        self._running = [TranscriptHypothesis() for _ in range(beams)]
        self._finished: list[TranscriptHypothesis] = []
        self._beams, self._end, self._wanted = beams, end, max(1, round(beams * patience))

    @property
    def choices(self) -> int:
        """Return how many of the likeliest tokens of each row `extend` needs."""
        return self._beams + 1

    def advance(self, logits: Floats) -> tuple[list[int], bool]:
        """Keep the likeliest continuations of all rows."""
        logprobs = logits - log_sum_exp(logits)
        tokens = likeliest(logprobs, self.choices)
        return self.extend(tokens, np.take_along_axis(logprobs, tokens, axis=1))

    def extend(self, tokens: npt.NDArray[np.integer], logprobs: Floats) -> tuple[list[int], bool]:
        """Advance by each row's likeliest tokens [rows, choices], in any order, and their log-probabilities."""
        parents: list[int] = []
        running: list[TranscriptHypothesis] = []
        for row, new in self._continuations(tokens, logprobs):
            if new.tokens[-1] != self._end:
                parents.append(row)
                running.append(new)
                if len(parents) == self._beams:
                    break
            elif len(self._finished) < self._wanted:
                self._finished.append(TranscriptHypothesis(new.tokens[:-1], new.logprobs[:-1], new.sum_logprob))
        self._running = running
        self.sampled = [new.tokens for new in running]
        return parents, len(self._finished) >= self._wanted

    def _continuations(
        self, tokens: npt.NDArray[np.integer], logprobs: Floats
    ) -> list[tuple[int, TranscriptHypothesis]]:
        """Return the continuations by each row's tokens with the row's number, best first."""
        # Rows with the same tokens are one: at first, all are the same.
        found: dict[tuple[int, ...], tuple[int, TranscriptHypothesis]] = {}
        for row, (before, chosen, values) in enumerate(zip(self._running, tokens, logprobs, strict=True)):
            for place in np.argsort(-values, kind="stable"):
                total = float(np.float32(before.sum_logprob) + values[place])
                after = [*before.tokens, int(chosen[place])]
                found[tuple(after)] = row, TranscriptHypothesis(after, [*before.logprobs, float(values[place])], total)
        return sorted(found.values(), key=lambda item: item[1].sum_logprob, reverse=True)

    def hypotheses(self) -> list[TranscriptHypothesis]:
        """Return the finished hypotheses; of too few, the best unfinished ones, too."""
        return self._finished + self._running[: max(0, self._beams - len(self._finished))]


SearchState = Sampled | Beam
"""Hypotheses of one window, and the choice of their next tokens."""


def search(
    steps: Steps,
    memory: Memory,
    tasks: Sequence[WindowTask],
    states: Sequence[SearchState],
    rules: TokenRules,
    cancelled: IsCancelled,
) -> Generator[None, None, list[Floats]]:
    """Run `states` of equally many rows, one a window, until all are done. Yields every few steps.

    Args:
        steps: The network.
        memory: Encoded windows.
        tasks: As in `memory`, with prompts of one length.
        states: As in `memory`.
        rules: Tokens that may come next.
        cancelled: Asked between steps.

    Returns:
        The logits [V] after each window's start token, before any rule.

    Raises:
        Cancelled: Between steps.
    """
    rows = len(states[0].sampled)
    longest = max(task.limit for task in tasks)
    prompts = [task.prompt for task in tasks]
    room = len(prompts[0]) + longest
    group, logits, first = steps.begin(prompts, memory, rows, room, tasks[0].start)
    live = list(range(len(tasks)))
    # On a GPU beams are ranked there: the host would need longer than a step to read and to rank all the logits.
    beams = [state for state in states if isinstance(state, Beam)] if steps.ahead else []
    on_device = DeviceRules(rules, steps.config.n_vocab) if beams else None
    for number in range(1, longest + 1):
        if cancelled():
            raise Cancelled("cancelled between steps of recognition")
        sampled = [tokens for window in live for tokens in states[window].sampled]
        chosen = None
        if number > 1:
            sent = steps.send([tokens[-1] for tokens in sampled], group)
            if on_device is None:
                logits = read(sent)
            else:
                chosen = on_device.likeliest(sent, on_device.state(sampled), beams[0].choices)
        if chosen is None:
            rules.apply(logits, sampled)
        kept: list[int] = []
        order: list[int] = []
        for slot, window in enumerate(live):
            part = slice(slot * rows, (slot + 1) * rows)
            if chosen is None:
                parents, done = states[window].advance(logits[part])
            else:
                parents, done = beams[window].extend(chosen[0][part], chosen[1][part])
            if not done and number < tasks[window].limit:
                kept.append(slot)
                order += [slot * rows + parent for parent in parents]
        live = [live[slot] for slot in kept]
        if not live:
            break
        group.select(kept, order)
        if number % STEPS_A_TURN == 0:
            yield
    return list(first)


def greedy(
    steps: Steps,
    memory: Memory,
    tasks: Sequence[WindowTask],
    states: Sequence[Sampled],
    rules: TokenRules,
    cancelled: IsCancelled,
) -> Generator[None, None, list[Floats]]:
    """Run `states`, one row at temperature 0 each, as `search` does. Yields every few steps.

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
    on_device, place = DeviceRules(rules, steps.config.n_vocab), mx.array([group.place])
    last = on_device.state([[state.sampled[0][-1]] for state in states])

    def send() -> tuple[mx.array, mx.array]:
        """Send a step -> each row's token [R] and its log-probability [R], which are under way."""
        nonlocal place, last
        logits, place = steps.advance(last[0][:, None], place, group)
        token, logprob, paired, latest = on_device.choose(logits, last)
        last = token, paired, latest
        mx.async_eval(logprob, *last)
        return token, logprob

    made = send()
    for number in range(2, longest + 1):
        if cancelled():
            raise Cancelled("cancelled between steps of recognition")
        following = send() if number < longest else made
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
