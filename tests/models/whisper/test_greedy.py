"""Choices on the device, greedy and of beams, against the host's, whose rules are the definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.backend import mx
from models.contract import Cancelled
from models.whisper.decoding import DecodingOptions, decode
from models.whisper.device_rules import DeviceRules
from models.whisper.rules import TimestampRules, TokenRules, log_sum_exp
from models.whisper.search import Sampled, WindowTask, greedy
from models.whisper.steps import Steps
from models.whisper.text import WhisperTokenizer
from tests.models.whisper.builder import config, drain, network, ranks_file

SIZE, END, FIRST, NO_TIMES = 40, 20, 24, 23
ORDER = TimestampRules(END, FIRST, NO_TIMES, None)
RULES = TokenRules([3, 21, 22], (), ORDER)


def allowed(logits: np.ndarray, tokens: Sequence[int], rules: TokenRules) -> np.ndarray:
    row = logits[None].copy()
    rules.apply(row, [tokens])
    return (row - log_sum_exp(row))[0]


def on_host(logits: np.ndarray, tokens: Sequence[int], rules: TokenRules) -> tuple[int, float]:
    logprobs = allowed(logits, tokens, rules)
    return int(logprobs.argmax()), float(logprobs.max())


def random_logits(draw: np.random.Generator) -> np.ndarray:
    logits = draw.standard_normal((3, SIZE)).astype(np.float32) * 3
    logits[:, FIRST:] += draw.choice([-3, 0, 3])
    return logits


@pytest.mark.parametrize("rules", [RULES, TokenRules([3, 21], (), None)])
@pytest.mark.parametrize("seed", range(6))
def test_choices_are_those_of_the_rules(seed: int, rules: TokenRules) -> None:
    """Random logits, in which timestamps are likelier or less likely, along transcripts of three rows."""
    draw, device = np.random.default_rng(seed), DeviceRules(rules, SIZE)
    rows = [[FIRST + 1], [FIRST + 2], [5]]
    state, kinds = device.state(rows), set()
    for _ in range(14):
        logits = random_logits(draw)
        token, logprob, *rest = device.choose(mx.array(logits), state)
        most, values = device.likeliest(mx.array(logits), device.state(rows), 4)
        state = (token, *rest)
        for number, (row, found, value) in enumerate(
            zip(rows, np.array(token).tolist(), np.array(logprob), strict=True)
        ):
            wanted, score = on_host(logits[number], row, rules)
            assert found == wanted
            assert value == pytest.approx(score, abs=1e-4)
            scores = allowed(logits[number], row, rules)
            order = np.argsort(-values[number])
            assert np.sort(values[number])[::-1] == pytest.approx(np.sort(scores)[::-1][:4], abs=1e-4)
            assert scores[most[number][order]] == pytest.approx(values[number][order], abs=1e-4)
            assert len({*most[number].tolist()}) == 4
            kinds.add((row[-1] >= FIRST, found >= FIRST))
            row.append(found)
    assert len(kinds) >= 3


@pytest.mark.parametrize("timestamps", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("windows", [1, 3])
def test_transcripts_are_those_of_the_host(
    windows: int, beams: int, timestamps: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dims = config()
    steps = Steps(network(dims, seed=2))
    tokenizer = WhisperTokenizer(ranks_file(tmp_path_factory.mktemp("ranks")), dims)
    mel = np.random.RandomState(0).standard_normal((windows, 40, 80)).astype(np.float32)
    memory = drain(steps.encode(mel))
    found = []
    for ahead in (False, True):
        steps.ahead = ahead
        for limit in (1, 2, 9, None):
            options = DecodingOptions(limit=limit, timestamps=timestamps, beams=beams)
            found.append(drain(decode(steps, tokenizer, memory, options, lambda: False)))
    for host, device in zip(found[:4], found[4:], strict=True):
        assert [one.tokens for one in device] == [one.tokens for one in host]
        for one, other in zip(device, host, strict=True):
            assert one.average_logprob == pytest.approx(other.average_logprob, abs=1e-4)
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
            assert replace(one, average_logprob=0, logprobs=()) == replace(other, average_logprob=0, logprobs=())


def test_windows_end_each_at_its_place() -> None:
    steps = Steps(network(config(n_vocab=2000), seed=2))
    memory = drain(steps.encode(np.random.RandomState(0).standard_normal((2, 40, 80)).astype(np.float32)))
    states = [Sampled(1, 7, 0.0, np.random.default_rng(0)) for _ in range(2)]
    tasks = [WindowTask([1, 2], 0, limit) for limit in (3, 8)]
    drain(greedy(steps, memory, tasks, states, TokenRules((), (), None), lambda: False))
    assert [len(state.sampled[0]) for state in states] == [3, 8]


def test_cancelled_between_steps() -> None:
    steps = Steps(network(config(n_vocab=2000), seed=2))
    memory = drain(steps.encode(np.zeros((1, 40, 80), np.float32)))
    state, asked = Sampled(1, 7, 0.0, np.random.default_rng(0)), iter([False, False, True])
    with pytest.raises(Cancelled):
        drain(
            greedy(steps, memory, [WindowTask([1, 2], 0, 50)], [state], TokenRules([7], (), None), lambda: next(asked))
        )
    assert len(state.sampled[0]) == 3
