"""Dense layers: cut over the CPU streams, quantized, and as they were."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import cpu_streams, mx, on_cpu
from models.layers import linear
from models.layers.linear import Linear, Projection, row_parts
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE


@pytest.mark.parametrize("shape", [(7,), (2, 5, 7)])
def test_linear_spread_over_streams(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    """Before and after lowering: x W^T + b."""
    monkeypatch.setattr(linear, "_MIN_COLUMNS", 2)
    rng = np.random.RandomState(0)
    layer, weight, bias, x = Linear(7, 9), rng.randn(9, 7), rng.randn(9), rng.randn(*shape)
    layer.weight, layer.bias = mx.array(weight.astype(np.float32)), mx.array(bias.astype(np.float32))
    before = np.array(layer(mx.array(x.astype(np.float32))))
    layer.lower()
    layer.lower()
    after = np.array(layer(mx.array(x.astype(np.float32))))
    for found in (before, after):
        assert checks.distance(found, x @ weight.T + bias) < TOLERANCE


def random_projection(inputs: int, outputs: int) -> Projection:
    rng = np.random.RandomState(0)
    found = Projection(inputs, outputs)
    found.weight = mx.array(rng.standard_normal((outputs, inputs)).astype(np.float32) / 16)
    found.bias = mx.array(rng.standard_normal(outputs).astype(np.float32))
    return found


@pytest.mark.parametrize("rows", [1, 2, 3, 40])
@pytest.mark.parametrize("outputs", [1, 7, 200])
def test_lowered_equals_plain(monkeypatch: pytest.MonkeyPatch, rows: int, outputs: int) -> None:
    """Cut into a piece a stream, whether or not the outputs divide evenly."""
    monkeypatch.setattr(linear, "_MIN_WEIGHTS", 1)
    layer = random_projection(64, outputs)
    x = mx.array(np.random.RandomState(1).standard_normal((2, rows, 64)).astype(np.float32))
    expected = np.array(x) @ np.array(layer.weight).T + np.array(layer.bias)
    plain = np.array(layer(x))
    layer.lower()
    np.testing.assert_allclose(plain, expected, atol=1e-5)
    np.testing.assert_allclose(np.array(layer(x)), expected, atol=1e-5)


def test_large_weights_are_shared_out() -> None:
    assert len(row_parts(mx.zeros((4096, 128)))) == (len(cpu_streams()) if on_cpu() else 1)
    assert len(row_parts(mx.zeros((64, 128)))) == 1


@pytest.mark.parametrize(("bits", "most"), [(8, 0.01), (4, 0.15)])
def test_quantized(monkeypatch: pytest.MonkeyPatch, bits: int, most: float) -> None:
    """Near the product, not equal to it: half a step of 2^bits in each group's range, over 64 inputs."""
    monkeypatch.setattr(linear, "_MIN_WEIGHTS", 1)
    layer = random_projection(128, 96)
    x = mx.array(np.random.RandomState(1).standard_normal((1, 2, 128)).astype(np.float32))
    expected = np.array(layer(x))
    layer.lower(bits)
    error = np.abs(np.array(layer(x)) - expected).max() / np.abs(expected).max()
    assert 1e-6 < error < most
