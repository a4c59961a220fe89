"""Attention against its formula in double precision, and sinusoidal positions."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.layers.attention import attend, sinusoids


@pytest.mark.parametrize("spread", [0.1, 1.0, 12.0])
def test_attend_equals_softmax_in_double_precision(spread: float) -> None:
    """Flat logits, ordinary ones, and such that one key takes all; a key at minus infinity takes nothing."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, rows, 8)) for rows in (5, 40, 40))
    bias = np.where(np.arange(40) < 33, rng.standard_normal((2, 1, 5, 40)), -np.inf)
    logits = spread * (q @ k.swapaxes(-1, -2)) + bias
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    wanted = weights @ v / weights.sum(-1, keepdims=True)
    found = attend(*(mx.array(a.astype(np.float32)) for a in (q, k, v)), spread, mx.array(bias.astype(np.float32)))
    assert np.abs(np.array(found) - wanted).max() < 1e-5


def test_sinusoids_do_not_depend_on_how_many() -> None:
    assert np.array_equal(sinusoids(50, 16)[7:], sinusoids(43, 16, 7))
