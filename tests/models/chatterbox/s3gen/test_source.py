"""The harmonic source against float64, and the noise by absolute place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen.noise import Draw, NoiseAhead, frame_noise, random_phases
from models.chatterbox.s3gen.source import FixedPointSource
from tests.models.chatterbox.s3gen.narrow import fixed_point

SIZE, RATE = 480, 24_000


@pytest.fixture
def source() -> FixedPointSource:
    layer = FixedPointSource(8, SIZE)
    layer.l_linear.weight = mx.array(np.random.RandomState(0).uniform(-0.5, 0.5, (1, 9)).astype(np.float32))
    layer.l_linear.bias = mx.array([0.03])
    return layer


def exact(layer: FixedPointSource, f0: np.ndarray, phases: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The definition in float64: each harmonic's frequency summed over samples, from a starting phase."""
    turns = np.cumsum(np.repeat(f0.astype(np.float64), SIZE)) / RATE
    waves = np.sin(2 * math.pi * turns[:, None] * np.arange(1, 10) + phases)
    weight, voiced = np.array(layer.l_linear.weight, dtype=np.float64)[0], np.repeat(f0 > 10, SIZE)
    level = np.where(voiced, 0.003, 0.1 / 3) * np.linalg.norm(weight)
    return np.tanh(0.1 * voiced * (waves @ weight) + noise * level + float(layer.l_linear.bias[0]))


def run(layer: FixedPointSource, f0: np.ndarray, phases: np.ndarray, noise: np.ndarray) -> np.ndarray:
    words = fixed_point(mx.array(phases.astype(np.float32)))
    return np.array(layer(mx.array(f0[None]), words, mx.array(noise.astype(np.float32).reshape(1, -1, SIZE)))[0])[0]


def test_no_drift(source: FixedPointSource) -> None:
    """Trap: phase summed in float32 is off by 1e-3 of a turn after ten seconds; here by 2e-4 after forty."""
    f0, silence = np.full(2000, 233.1, dtype=np.float32), np.zeros(2000 * SIZE)
    found, expected = run(source, f0, np.zeros(9), silence), exact(source, f0, np.zeros(9), silence)
    assert np.abs(found - expected)[-RATE:].max() < 2e-3


@pytest.mark.parametrize("cut", [1, 13, 39])
def test_pieces_equal_the_whole(source: FixedPointSource, cut: int) -> None:
    """Bit for bit: the phase that comes back is where the next piece goes on."""
    f0 = mx.array(np.random.RandomState(2).uniform(5, 400, (1, 40)).astype(np.float32))
    phases, noise = random_phases(3, 8), frame_noise(3, Draw.EXCITATION, 0, 40, SIZE)
    whole, turns = source(f0, phases, noise)
    first, after = source(f0[:, :cut], phases, noise[:, :cut])
    second, _ = source(f0[:, cut:], phases, noise[:, cut:], after[:, -1:])
    assert np.array_equal(np.array(after), np.array(turns)[:, : cut + 1])
    assert np.array_equal(np.array(mx.concatenate([first, second], axis=1)), np.array(whole))


def test_phases_as_words() -> None:
    angles = np.array([0, math.pi / 2, -math.pi / 2, math.pi - 1e-4, -math.pi, -1e-9], dtype=np.float32)
    turns = np.array(fixed_point(mx.array(angles))) / 2.0**32
    assert np.abs(np.exp(2j * np.pi * turns) - np.exp(1j * angles.astype(np.float64))).max() < 1e-6


def test_noise_in_pieces_is_the_noise_at_once() -> None:
    whole = np.array(frame_noise(7, Draw.MEL, 0, 100, 80))
    assert np.array_equal(whole[:, :33], np.array(frame_noise(7, Draw.MEL, 0, 33, 80)))
    assert np.array_equal(whole[:, 33:71], np.array(frame_noise(7, Draw.MEL, 33, 38, 80)))
    assert frame_noise(7, Draw.MEL, 5, 0, 80).shape == (1, 0, 80)


def test_noise_that_is_drawn_ahead_is_the_same() -> None:
    ahead = NoiseAhead(7, Draw.MEL, 8)
    ahead.reserve(1)
    for first, count in ((0, 30), (30, 0), (250, 20), (3, 700), (1000, 1)):
        wanted = frame_noise(7, Draw.MEL, first, count, 8)
        assert np.array_equal(np.array(ahead.frames(first, count)), np.array(wanted))


def test_noise_is_normal_and_independent() -> None:
    """A frame's noise is independent of neighbors, purposes and seeds: 48,000 numbers, bounds of five deviations."""
    x = np.array(frame_noise(7, Draw.MEL, 0, 600, 80))[0]
    assert abs(x.mean()) < 5 / x.size**0.5
    assert abs(x.std() - 1) < 5 / (2 * x.size) ** 0.5
    others = {
        "next frame": np.roll(x, 1, axis=0),
        "next bin": np.roll(x, 1, axis=1),
        "prompt": np.array(frame_noise(7, Draw.PROMPT_MEL, 0, 600, 80))[0],
        "seed": np.array(frame_noise(8, Draw.MEL, 0, 600, 80))[0],
    }
    for name, other in others.items():
        assert abs((x * other).mean()) < 5 / x.size**0.5, name


def test_nothing_touches_the_global_generator() -> None:
    """Trap: noise frozen, or the global generator reseeded."""
    mx.random.seed(5)
    expected = np.array(mx.random.normal((4,)))
    mx.random.seed(5)
    one, two = random_phases(1, 8), random_phases(2, 8)
    mx.eval(frame_noise(1, Draw.MEL, 0, 3, 80))
    assert np.array_equal(np.array(mx.random.normal((4,))), expected)
    assert int(one[0]) == 0
    assert len(set(np.array(one).tolist() + np.array(two).tolist())) == 17
