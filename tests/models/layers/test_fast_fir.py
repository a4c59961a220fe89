"""The fast FIR algorithm equals the sum over taps; tolerance 2e-6 relative (float32 rounding of its extra sums)."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.layers.conv import shift_sum
from models.layers.fast_fir import fast_fir, pays, split_rows, summed_taps


@pytest.mark.parametrize("kernel", [7, 11])
@pytest.mark.parametrize("dilation", [1, 3, 5])
@pytest.mark.parametrize("length", [100, 101])
@pytest.mark.parametrize("edges", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("onto", [False, True])
def test_equals_the_sum_over_taps(kernel: int, dilation: int, length: int, edges: tuple[int, int], onto: bool) -> None:
    """Inner parts, both ends of a sequence, odd and even lengths, with and without something to add to."""
    rng = np.random.default_rng(kernel * length + dilation)
    x = mx.array(rng.standard_normal((1, length, 6), dtype=np.float32))
    taps = mx.array(rng.standard_normal((kernel, 6, 5), dtype=np.float32))
    left, right = ((kernel - 1) * dilation // 2 * edge for edge in edges)
    expected = shift_sum(mx.pad(x, [(0, 0), (left, right), (0, 0)]), taps, dilation)
    rows = expected.shape[1]
    start = mx.array(rng.standard_normal((1, rows, 5), dtype=np.float32)) if onto else None
    even, odd, *before = split_rows(length, left)
    found = fast_fir(x[:, even], x[:, odd], before, taps, summed_taps(taps), dilation, rows, start)
    expected = np.array(expected if start is None else expected + start)
    assert found.shape == expected.shape
    assert np.linalg.norm(np.array(found) - expected) < 2e-6 * np.linalg.norm(expected)


def test_is_used_only_where_it_holds() -> None:
    """Even kernels and even dilations have other phases; short and narrow kernels do not pay."""
    assert pays(11, 5, 128)
    assert not pays(8, 1, 128)
    assert not pays(11, 2, 128)
    assert not pays(3, 1, 128)
    assert not pays(11, 1, 64)
