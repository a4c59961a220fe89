"""Sinusoidal positions against the formula in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from models.layers.position import sinusoids


@pytest.mark.parametrize(("width", "first"), [(8, 0), (8, 2), (64, 2), (7, 0), (2, 1)])
def test_formula(width: int, first: int) -> None:
    found = sinusoids(20, width, first)
    half = width // 2
    frequency = 10_000.0 ** (-np.arange(half) / max(half - 1, 1))
    phase = (first + np.arange(20.0))[:, None] * frequency
    expected = np.concatenate([np.sin(phase), np.cos(phase), np.zeros((20, width % 2))], axis=1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_rows_do_not_depend_on_how_many() -> None:
    assert np.array_equal(sinusoids(50, 16)[7:], sinusoids(43, 16, 7))
