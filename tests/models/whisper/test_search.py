"""Greedy search, samples and beams, on scripted probabilities and on the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from models.backend import mx
from models.contract import Cancelled
from models.native import kernels
from models.whisper.rules import Floats, TokenRules, log_sum_exp
from models.whisper.search import Beam, Sampled, SearchState, TranscriptHypothesis, WindowTask, likeliest, search
from models.whisper.steps import Steps, WindowBatch
from tests.models.whisper.builder import config, drain, network

END, SIZE = 5, 6
NO_RULES = TokenRules((), (), None)


class Script:
    """Stand-in for `Steps`: the logits after each row of tokens, by a random table of the last two."""

    ahead = False

    def __init__(self, seed: int) -> None:
        self.table = np.random.RandomState(seed).standard_normal((SIZE, SIZE, SIZE)).astype(np.float32) * 2
        self.config = config(n_vocab=2000)
        self.rows: list[list[int]] = []

    def logits(self, tokens: Sequence[int]) -> Floats:
        last = [0, 0, *tokens][-2:]
        found: Floats = self.table[last[0], last[1]]
        return found

    def begin(
        self, prompts: Sequence[Sequence[int]], memory: object, rows: int, room: int, start: int
    ) -> tuple[WindowBatch, Floats, Floats]:
        self.rows = [[] for _ in range(len(prompts) * rows)]
        return cast(WindowBatch, self), np.array([self.logits([])] * len(self.rows)), np.zeros((len(prompts), SIZE))

    def select(self, windows: Sequence[int], rows: Sequence[int]) -> None:
        self.rows = [list(self.rows[row]) for row in rows]

    def send(self, tokens: Sequence[int], group: object) -> Floats:
        """Each row must be the one that its tokens belong to."""
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        return np.array([self.logits(row) for row in self.rows])


def run(state: SearchState, seed: int, limit: int) -> list[TranscriptHypothesis]:
    task = WindowTask([0], 0, limit)
    drain(search(cast(Steps, Script(seed)), [], [task], [state], NO_RULES, lambda: False))
    return state.hypotheses()


def logprob(script: Script, tokens: Sequence[int]) -> float:
    total = 0.0
    for at, token in enumerate(tokens):
        row = script.logits(tokens[:at])
        total += float((row - log_sum_exp(row))[token])
    return total


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest(seed: int) -> None:
    found = run(Sampled(1, END, 0.0, np.random.default_rng(0)), seed, 8)[0]
    script = Script(seed)
    for at, token in enumerate(found.tokens):
        assert token == script.logits(found.tokens[:at]).argmax()
    assert found.sum_logprob == pytest.approx(logprob(script, [*found.tokens, END][:8]), abs=1e-4)
    assert len(found.logprobs) == len(found.tokens)


def test_samples_are_drawn_by_their_seed() -> None:
    drawn = [run(Sampled(3, END, 1.0, np.random.default_rng(seed)), 1, 6) for seed in (4, 4, 5)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({tuple(one.tokens) for one in drawn[0]}) > 1
    for one in drawn[0]:
        whole = [*one.tokens, END][:6]
        assert one.sum_logprob == pytest.approx(logprob(Script(1), whole), abs=1e-4)


def test_samples_follow_the_probabilities() -> None:
    state = Sampled(4000, END, 0.5, np.random.default_rng(0))
    logits = np.tile(np.log(np.array([1, 2, 3, 4, 5, 6], np.float32)), (4000, 1))
    state.advance(logits)
    counts = np.bincount([tokens[0] for tokens in state.sampled], minlength=6) / 4000
    assert np.abs(counts - np.arange(1, 7) ** 2 / 91).max() < 0.03


def plain_beam(script: Script, beams: int, wanted: int, limit: int) -> tuple[list[tuple[int, ...]], int]:
    """Results of beam search over all continuations of all hypotheses, and how many of them ended."""
    running: list[tuple[int, ...]] = [()]
    finished: list[tuple[int, ...]] = []
    for _ in range(limit):
        candidates = [(*tokens, token) for tokens in running for token in range(SIZE)]
        candidates.sort(key=lambda tokens: -logprob(script, tokens))
        running = []
        for tokens in candidates:
            if tokens[-1] == END:
                finished += [tokens[:-1]] if len(finished) < wanted else []
            else:
                running.append(tokens)
            if len(running) == beams:
                break
        if len(finished) >= wanted:
            break
    return finished + running[: max(0, beams - len(finished))], len(finished)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("beams", "patience"), [(2, 1.0), (4, 1.0), (4, 0.5), (4, 2.0)])
def test_beams_are_those_of_the_definition(seed: int, beams: int, patience: float) -> None:
    found = run(Beam(beams, END, patience), seed, 6)
    script = Script(seed)
    wanted, ended = plain_beam(script, beams, round(beams * patience), 6)
    assert [tuple(one.tokens) for one in found] == wanted
    for number, one in enumerate(found):
        whole = [*one.tokens, END] if number < ended else one.tokens
        assert one.sum_logprob == pytest.approx(logprob(script, whole), abs=1e-4)
        assert sum(one.logprobs) == pytest.approx(logprob(script, one.tokens), abs=1e-4)


def test_patience_waits_for_more_finished_ones() -> None:
    for patience, wanted in ((1.0, 3), (2.0, 6)):
        found = run(Beam(3, END, patience), 2, 40)
        assert len(found) == wanted
        assert len({tuple(one.tokens) for one in found}) == wanted


def test_too_few_finished_ones_are_filled_up() -> None:
    """A limit of one token: whatever runs counts, best first."""
    found = run(Beam(4, END, 1.0), 3, 1)
    assert len(found) == 4
    assert sum(not one.tokens for one in found) <= 1


def test_scores() -> None:
    assert TranscriptHypothesis([1, 2], sum_logprob=-3).score() == -1.5
    assert TranscriptHypothesis([], sum_logprob=-3).score() == -3  # the reference divides by zero here


@pytest.mark.parametrize("rows", [1, 3])
def test_windows_together_and_alone(rows: int) -> None:
    """Windows that end at different times leave the group; the others' rows stay theirs."""
    steps = Steps(network(config(n_vocab=2000), seed=2))
    mel = np.random.RandomState(0).standard_normal((3, 40, 80)).astype(np.float32)
    memory = drain(steps.encode(mel))
    limits = [4, 9, 6]

    def state() -> SearchState:
        return Beam(rows, 7, 1.0) if rows > 1 else Sampled(1, 7, 0.0, np.random.default_rng(0))

    def found(windows: Sequence[int]) -> list[list[list[int]]]:
        states = [state() for _ in windows]
        part = [mx.take(each, mx.array(list(windows)), axis=0) for each in memory]
        drain(search(steps, part, [WindowTask([1, 2], 0, limits[k]) for k in windows], states, NO_RULES, lambda: False))
        return [[one.tokens for one in each.hypotheses()] for each in states]

    together = found([0, 1, 2])
    assert together == [found([k])[0] for k in range(3)]
    assert [len(one[0]) for one in together] == limits


@pytest.mark.skipif(not kernels.available(), reason="of the native kernels")
def test_what_a_token_reads_is_as_precise_as_the_weights() -> None:
    mel = np.random.RandomState(0).standard_normal((1, 40, 80)).astype(np.float32)
    whole, rounded = (Steps(network(config(n_vocab=2000), seed=2, bits=bits)) for bits in (0, 8))
    assert drain(whole.encode(mel))[0].dtype == mx.float32
    memory = drain(rounded.encode(mel))
    assert memory[0].dtype == mx.bfloat16
    _, found, _ = rounded.begin([[1, 2, 3]], memory, 1, 8, 0)
    exact = rounded.network.decoder.memories(rounded.network.encoder(mx.array(mel)))
    _, wanted, _ = rounded.begin([[1, 2, 3]], exact, 1, 8, 0)
    assert 0 < np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()


def test_cancelled_between_steps() -> None:
    state, asked = Sampled(1, END, 0.0, np.random.default_rng(0)), iter([False, False, False, True])
    steps, task, rules = cast(Steps, Script(0)), WindowTask([0], 0, 50), TokenRules([END], (), None)
    with pytest.raises(Cancelled):
        drain(search(steps, [], [task], [state], rules, lambda: next(asked)))
    assert len(state.sampled[0]) == 3


@pytest.mark.parametrize("size", [6, 64 * 9, 64 * 9 + 63, 51865])
@pytest.mark.parametrize("count", [2, 6, 9])
def test_likeliest_numbers(size: int, count: int) -> None:
    """The largest lie side by side, in one column of the folded row, in the rest behind it, or where chance has it."""
    count = min(count, size)
    x = np.random.RandomState(0).standard_normal((5, size)).astype(np.float32)
    x[1, : size // 2 + 1] = -np.inf
    x[2, -count:] += 10
    x[3, : size - 1 : max(1, size // 64)] += 10
    x[4, size // 2 : size // 2 + count] += 10
    x[1, -count:] = np.arange(count)
    found = likeliest(x, count)
    assert all(len(set(row)) == count for row in found.tolist())
    wanted = np.sort(x, axis=1)[:, -count:]
    assert np.array_equal(np.sort(np.take_along_axis(x, found, axis=1), axis=1), wanted)
