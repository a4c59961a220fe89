"""Normalization against PyTorch's values (tests/golden/make_layers.py)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from models.backend import mx
from models.layers.norm import combine, layer_norm, moments
from tests.golden.layer_cases import ADAIN
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, adain, golden

# 300 away from zero at a deviation of 3, float32 leaves two digits less.
ADAIN_TOLERANCE = {"full": TOLERANCE, "lengths": TOLERANCE, "far_from_zero": 1e-4}


@pytest.mark.parametrize("extra", [0, 25])
@pytest.mark.parametrize("name", ADAIN)
def test_adain_equals_torch(name: str, extra: int) -> None:
    """Trap: statistics over the padding. `extra` rows of 1000 behind every sequence change nothing."""
    assert checks.adain_layer(ADAIN[name], golden("adain", name), extra) < ADAIN_TOLERANCE[name]


@pytest.mark.parametrize("edges", [(0, 57, 120), (0, 1, 2, 119, 120), (0, 40, 80, 120)])
def test_moments_of_parts_combine_to_the_whole(edges: tuple[int, ...]) -> None:
    """Against float64; far from zero, where sums of squares would cancel."""
    x = np.random.RandomState(0).standard_normal((2, 120, 5)).astype(np.float32) * 2 + 50
    parts = combine([moments(mx.array(x[:, a:b])) for a, b in pairwise(edges)])
    exact = x.astype(np.float64)
    mean = exact.mean(axis=1, keepdims=True)
    assert checks.distance(parts.mean, mean) < TOLERANCE
    assert checks.distance(parts.deviation, ((exact - mean) ** 2).sum(axis=1, keepdims=True)) < 1e-5
    assert parts.count == 120


def test_masked_parts_combine_to_the_valid_rows() -> None:
    """One part ends inside its rows and one has no valid row at all."""
    x = np.random.RandomState(1).standard_normal((1, 90, 4)).astype(np.float32)
    valid = 47
    mask = checks.valid_rows((valid,), 90)
    parts = []
    for a, b in ((0, 30), (30, 60), (60, 90)):
        part = mask[:, a:b]
        parts.append(moments(mx.array(x[:, a:b]), part, mx.sum(part, axis=1, keepdims=True)))
    whole = combine(parts)
    exact = x[:, :valid].astype(np.float64)
    mean = exact.mean(axis=1, keepdims=True)
    assert checks.distance(whole.mean, mean) < TOLERANCE
    assert checks.distance(whole.deviation, ((exact - mean) ** 2).sum(axis=1, keepdims=True)) < TOLERANCE


def test_a_constant_channel_does_not_divide_by_zero() -> None:
    y = adain(mx.full((1, 10, 2), 4.0), mx.zeros((1, 1, 2)), mx.ones((1, 1, 2)), None, None)
    assert np.allclose(np.array(y), 1.0)


def test_layer_norm_equals_torch() -> None:
    values = golden("layer_norm", "only")
    y = layer_norm(*(mx.array(values[key]) for key in ("x", "weight", "bias")))
    assert checks.distance(y, values["y"]) < TOLERANCE
