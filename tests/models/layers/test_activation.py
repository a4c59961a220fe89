"""Activations against float64 and PyTorch's values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from models.backend import mx
from models.layers.activation import exp_below, gelu, gelu_tanh, mish, silu, sine, snake
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden, sin_squared


@pytest.mark.parametrize(("reach", "tolerance"), [(0.5, 1e-6), (30.0, 1e-6), (2.0**20, 1e-6)])
def test_sin_squared_against_float64(reach: float, tolerance: float) -> None:
    x = np.random.RandomState(0).uniform(-reach, reach, 40_001).astype(np.float32)
    assert checks.sine_error(sin_squared(mx.array(x)), x, squared=True) < tolerance


@pytest.mark.parametrize("reach", [math.pi, 60.0, 5e4, 9e5])
def test_sine_against_float64(reach: float) -> None:
    """The harmonic source asks for sines of tens of thousands of radians."""
    x = np.random.RandomState(0).uniform(-reach, reach, 40_001).astype(np.float32)
    assert checks.sine_error(sine(mx.array(x)), x, squared=False) < 1e-6


def test_sines_at_their_edges() -> None:
    """Zero, and both sides of where the reduced argument jumps."""
    halves = np.array([k / 2 for k in range(-9, 10)], dtype=np.float32)
    near = np.concatenate([np.nextafter(halves, np.float32(s)) for s in (-99, 99)] + [halves])
    assert checks.sine_error(sin_squared(mx.array(near)), near, squared=True) < 1e-6
    turns = (near * 2 * math.pi).astype(np.float32)
    assert checks.sine_error(sine(mx.array(turns)), turns, squared=False) < 1e-6
    assert float(sin_squared(mx.array(0.0))) == 0.0


def test_snake() -> None:
    """x + sin^2(alpha x) / alpha (arXiv:2006.08195), called as the generator does."""
    rng = np.random.RandomState(0)
    x, alpha = rng.standard_normal((2, 50, 8)) * 3, rng.uniform(0.2, 3, 8)
    xs, rate = mx.array(x.astype(np.float32)), mx.array(alpha.astype(np.float32))
    found = snake(xs, xs * (rate / math.pi), 1 / rate)
    assert checks.distance(found, x + np.sin(alpha * x) ** 2 / alpha) < TOLERANCE


def test_gelu_is_the_tanh_form() -> None:
    """Trap: ALBERT's gelu_new is not the exact GELU, from which it differs by up to 5e-4."""
    values = golden("gelu", "only")
    x = values["x"].astype(np.float64)
    exact = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])
    found = np.array(gelu_tanh(mx.array(values["x"])))
    assert (np.abs(found - values["y"]) / np.maximum(np.abs(x), 1)).max() < 5e-7
    assert np.abs(found - exact).max() > 2e-4


@pytest.mark.parametrize(
    ("function", "exact", "most"),
    [
        (gelu, lambda y: 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))), 5e-7),
        (silu, lambda y: y / (1 + np.exp(-y)), 1e-6),
        (lambda x, bias: mish(x + bias), lambda y: y * np.tanh(np.logaddexp(y, 0)), 5e-6),
    ],
)
def test_functions_of_a_sum(
    function: Callable[[mx.array, mx.array], mx.array], exact: Callable[[np.ndarray], np.ndarray], most: float
) -> None:
    """GELU, SiLU and Mish of x plus a bias, from -40 to 40."""
    x, bias = np.linspace(-40, 40, 40_000).reshape(-1, 8).astype(np.float32), np.arange(8, dtype=np.float32) / 8
    y, found = (x + bias).astype(np.float64), np.array(function(mx.array(x), mx.array(bias)))
    assert (np.abs(found - exact(y)) / np.maximum(np.abs(y), 1)).max() < most


def test_exponential_below_a_bound() -> None:
    """As softmax needs it: 1 at the bound, and next to nothing far below."""
    x = np.linspace(-60, 7, 40_001).astype(np.float32)
    found, wanted = np.array(exp_below(mx.array(x), mx.array(7.0))), np.exp(x.astype(np.float64) - 7)
    within = x - 7 > -24
    assert np.abs(found / wanted - 1)[within].max() < 1e-5
    assert found[~within].max() < 4e-11
    assert found[-1] == pytest.approx(1, abs=1e-6)
