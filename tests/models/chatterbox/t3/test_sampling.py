"""Processors, and draws that depend on the seed and the step alone. `make parity` has the processors' order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.sampling import ACCEPT, DRAW, Rules
from models.contract import SAMPLING_RANGES, Sampling
from tests.models.chatterbox.t3.builder import CONFIGS, GPT2, LLAMA

SCORES = st_numpy.arrays(
    np.float32, st.tuples(st.integers(1, 3), st.integers(2, 40)), elements=st.floats(-20, 20, width=32)
)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rules(**changes: float) -> Rules:
    values = {"exaggeration": 0.5, "guidance": 0.5, "temperature": 0.8, "min_p": 0.05, "top_p": 1.0, "penalty": 1.2}
    return Rules(**{**values, **changes})  # type: ignore[arg-type]


def test_defaults_are_the_references() -> None:
    """tts.py and tts_turbo.py; Turbo knows no guidance, exaggeration or min_p, and ignores them."""
    found = sampling.rules(ENGLISH.t3, Sampling())
    assert found == Rules(0.5, 0.5, 0.8, 0.05, 1.0, 1.2) and found.guided
    everything = Sampling(exaggeration=1.0, cfg_weight=1.0, temperature=0.5, min_p=0.1, top_p=0.9)
    assert sampling.rules(ENGLISH.t3, everything) == Rules(1.0, 1.0, 0.5, 0.1, 0.9, 1.2)
    assert sampling.rules(TURBO.t3, everything) == Rules(0.0, 0.0, 0.5, 0.0, 0.9, 1.2)
    assert not sampling.rules(ENGLISH.t3, Sampling(cfg_weight=0.0)).guided
    assert set(sampling.defaults(ENGLISH.t3)) == set(SAMPLING_RANGES)
    assert set(sampling.defaults(TURBO.t3)) == {"temperature", "top_p", "repetition_penalty"}
    assert sampling.rules(TURBO.t3, Sampling()).mode(TURBO.t3).top_k == 1000


def test_guidance() -> None:
    logits = mx.array(np.random.RandomState(0).standard_normal((2, 3, 7)).astype(np.float32))
    c, u = np.array(logits)
    for weight in (0.5, 2.0):
        found = np.array(sampling.guide(logits, rules(guidance=weight).params()))
        np.testing.assert_allclose(found, c + weight * (c - u), rtol=1e-6)
    np.testing.assert_array_equal(np.array(sampling.guide(logits[:1], rules().params())), c)
    assert sampling.guide(logits.astype(mx.bfloat16), rules().params()).dtype == mx.float32


@settings(max_examples=60, deadline=None)
@given(SCORES, st.floats(1, 3))
def test_penalty(scores: np.ndarray, penalty: float) -> None:
    seen = np.random.RandomState(0).rand(*scores.shape) < 0.5
    found = np.array(sampling.penalize(mx.array(scores), mx.array(seen), mx.array(penalty, dtype=mx.float32)))
    np.testing.assert_array_equal(found[~seen], scores[~seen])
    assert (found[seen] <= scores[seen] + 1e-6).all()
    signed = np.where(scores < 0, scores * np.float32(penalty), scores / np.float32(penalty))
    np.testing.assert_allclose(found[seen], signed[seen], rtol=1e-6)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_no_temperature_is_the_likeliest(name: str) -> None:
    config, chosen = CONFIGS[name], rules(temperature=0.0)
    rng = np.random.RandomState(2)
    scores = rng.standard_normal((5, config.speech_vocabulary)).astype(np.float32)
    seen = rng.rand(*scores.shape) < 0.4
    mode = chosen.mode(config)
    left = np.array(sampling.process(mx.array(scores), mx.array(seen), chosen.params(), mode))
    expected = np.where(seen, np.where(scores < 0, scores * 1.2, scores / 1.2), scores).argmax(-1)
    np.testing.assert_array_equal(np.isfinite(left).sum(-1), 1)
    np.testing.assert_array_equal(left.argmax(-1), expected)
    seeds = sampling.seed_array(0)
    for row, token in enumerate(expected):
        drawn = sampling.draw(mx.array(left[row : row + 1]), sampling.key(seeds, DRAW, mx.array([row])), mode)
        assert drawn.tolist() == [token]


@pytest.mark.parametrize("name", list(CONFIGS))
def test_exact_length_is_all_speech(name: str) -> None:
    """Neither the end nor the begin, nor ids beyond them, which are not spoken."""
    config = CONFIGS[name]
    scores = np.zeros((1, config.speech_vocabulary), np.float32)
    scores[0, config.start_speech :] = 50
    for exact in (False, True):
        chosen = sampling.rules(config, Sampling(), exact=exact)
        unseen, mode = mx.zeros(scores.shape, dtype=mx.bool_), chosen.mode(config)
        found = np.isfinite(np.array(sampling.process(mx.array(scores), unseen, chosen.params(), mode))[0])
        assert found[config.start_speech :].any() is np.bool_(not exact)
        assert found[: config.start_speech].all() is np.bool_(exact)


def test_draws_depend_on_seed_step_and_purpose_alone() -> None:
    """Not on MLX's global generator, and not on how many were drawn before."""
    scores, mode = mx.zeros((1, 500)), rules().mode(LLAMA)

    def numbers(seed: int, purpose: int, steps: range) -> list[int]:
        seeds = sampling.seed_array(seed)
        return [int(sampling.draw(scores, sampling.key(seeds, purpose, mx.array([i])), mode)[0]) for i in steps]

    mx.random.seed(1)
    first = numbers(7, DRAW, range(40))
    mx.random.seed(2)
    assert numbers(7, DRAW, range(40)) == first
    assert numbers(7, DRAW, range(20, 40)) == first[20:]
    for other in (numbers(8, DRAW, range(40)), numbers(7, ACCEPT, range(40)), numbers(7 + 2**40, DRAW, range(40))):
        assert sum(a == b for a, b in zip(first, other, strict=True)) < 5
    assert len(set(first)) > 30


def test_draws_are_distributed_as_the_logits_say() -> None:
    p = np.array([0.5, 0.25, 0.15, 0.1])
    scores, mode = mx.log(mx.array(p))[None], rules().mode(LLAMA)
    seeds = sampling.seed_array(3)
    drawn = mx.concatenate([sampling.draw(scores, sampling.key(seeds, DRAW, mx.array([i])), mode) for i in range(600)])
    counts = np.bincount(np.array(drawn), minlength=4)
    statistic = ((counts - 600 * p) ** 2 / (600 * p)).sum()
    assert statistic < 16.27  # chi-square with 3 degrees of freedom, 0.1 %


def test_what_the_penalty_knows_of() -> None:
    """Llama remembers the begin of speech; GPT-2 only for its first draw."""
    for config in (LLAMA, GPT2):
        assert np.flatnonzero(np.array(sampling.first_seen(config))).tolist() == [config.start_speech]
    token = mx.array([4])
    assert np.flatnonzero(np.array(sampling.after_first(LLAMA, token))).tolist() == [4, 90]
    assert np.flatnonzero(np.array(sampling.after_first(GPT2, token))).tolist() == [4]
    assert np.flatnonzero(np.array(sampling.after(LLAMA, [4, 2, 4]))).tolist() == [2, 4, 90]
    assert np.flatnonzero(np.array(sampling.after(GPT2, [4, 2, 4]))).tolist() == [2, 4]
    marked = sampling.mark(sampling.first_seen(LLAMA), token)
    assert np.flatnonzero(np.array(marked)).tolist() == [4, 90]
