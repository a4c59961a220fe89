"""The harmonic source against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx
from models.kokoro.generator import InterpolatedSource

STEP = 300
RATE = 24_000


@pytest.fixture
def source() -> InterpolatedSource:
    layer = InterpolatedSource(STEP)
    rng = np.random.RandomState(0)
    layer.l_linear.weight = mx.array(rng.uniform(-0.5, 0.5, (1, 9)).astype(np.float32))
    layer.l_linear.bias = mx.array([0.03])
    return layer


def exact(layer: InterpolatedSource, f0: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The definition in float64: nine harmonics' phases at the steps' centers, linear between, held at the ends."""
    turns = (f0.astype(np.float64)[:, None] * np.arange(1, 10) / RATE) % 1
    phase = np.cumsum(turns, axis=0) * 2 * math.pi * STEP
    at = np.clip((np.arange(len(f0) * STEP) + 0.5) / STEP - 0.5, 0, len(f0) - 1)
    waves = np.stack([np.sin(np.interp(at, np.arange(len(f0)), phase[:, h])) for h in range(9)], axis=1)
    voiced = np.repeat(f0 > 10, STEP)
    merged = 0.1 * voiced * (waves @ np.array(layer.l_linear.weight)[0])
    return np.tanh(merged + noise * np.where(voiced, 0.003, 0.1 / 3) + float(layer.l_linear.bias[0]))


def run(layer: InterpolatedSource, f0: np.ndarray, noise: np.ndarray, steps: int | None = None) -> np.ndarray:
    valid = None if steps is None else mx.array([[steps]])
    return np.array(layer(mx.array(f0[None]), mx.array(noise[None].astype(np.float32)), valid))[0]


def test_no_drift_against_f0(source: InterpolatedSource) -> None:
    """Trap: phase summed in float32 runs away. After 25 s at 200 Hz the last second still agrees with float64."""
    f0 = np.full(2000, 200.0, dtype=np.float32)
    silence = np.zeros(2000 * STEP)
    found, expected = (
        signal[-RATE:] - signal.mean() for signal in (run(source, f0, silence), exact(source, f0, silence))
    )
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.05
    # One second: bins are Hertz. Every harmonic stands at its multiple of 200.
    spectrum = np.abs(np.fft.rfft(found))
    assert all(spectrum[200 * h] > 20 * spectrum[200 * h + 30] for h in range(1, 10))


@pytest.mark.parametrize("steps", [*range(1, 60), 158, 316, 1023])
def test_length_is_exact(source: InterpolatedSource, steps: int) -> None:
    """Trap: sizes computed in floating point are one step too long for many even lengths."""
    assert len(run(source, np.full(steps, 100, dtype=np.float32), np.zeros(steps * STEP))) == steps * STEP


@pytest.mark.parametrize(("f0", "level"), [(0.0, 0.1 / 3), (9.9, 0.1 / 3), (10.1, 0.003), (200.0, 0.003)])
def test_noise_by_voicing(source: InterpolatedSource, f0: float, level: float) -> None:
    curve, noise = np.full(4, f0, dtype=np.float32), np.random.RandomState(2).standard_normal(4 * STEP)
    source.l_linear.weight, source.l_linear.bias = mx.zeros((1, 9)), mx.zeros((1,))
    assert np.allclose(run(source, curve, noise), np.tanh(noise * level), atol=1e-6)


def test_the_merged_noise_has_the_deviation_of_nine(source: InterpolatedSource) -> None:
    """Nine independent normals through the merge's weights are one normal of this deviation."""
    assert float(source.noise_gain()) == pytest.approx(float(np.linalg.norm(np.array(source.l_linear.weight))))


def test_padding_does_not_reach_the_valid_steps(source: InterpolatedSource) -> None:
    rng = np.random.RandomState(3)
    f0, noise = rng.uniform(80, 240, 40).astype(np.float32), rng.standard_normal(40 * STEP)
    longer = np.concatenate([f0, np.full(25, 190, dtype=np.float32)])
    padded = run(source, longer, np.concatenate([noise, np.ones(25 * STEP)]), steps=40)
    assert np.abs(padded[: 40 * STEP] - run(source, f0, noise)).max() < 1e-5
