"""The largest of many products, screened in 8 bits, is the largest of the products themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.layers import int8_argmax
from models.layers.int8_argmax import MOST_INPUTS, Int8Argmax
from models.native import process


def random_weight(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal((rows, width)).astype(np.float32)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3000), st.integers(1, 150), st.integers(1, 9), st.integers(0, 10**6))
def test_equals_the_product(rows: int, width: int, count: int, seed: int) -> None:
    weight, x = random_weight(rows, width, seed), random_weight(count, width, seed + 1)
    products = x.astype(np.float64) @ weight.T.astype(np.float64)
    found = Int8Argmax(weight, np.zeros(rows, np.float32)).largest(x)
    best = products.max(axis=1)
    assert np.all(products[np.arange(count), found] >= best - 1e-5 * np.abs(best) - 1e-5)


def test_few_are_computed_in_full() -> None:
    """Or it would be slower than the product it replaces."""
    each = Int8Argmax(random_weight(20_000, 256), np.zeros(20_000, np.float32))
    each.largest(random_weight(4, 256, 1))
    assert 4 <= each.full < 4 * 400


@pytest.mark.parametrize("gap", [1e-3, 1e-4])
def test_near_ties(gap: float) -> None:
    """Rows that 8 bits cannot tell apart: a thousand copies of one, a single one of them a little louder."""
    weight = np.repeat(random_weight(1, 256), 1000, axis=0)
    x = weight[:1].copy()
    weight[617] *= 1 + gap
    each = Int8Argmax(weight, np.zeros(1000, np.float32))
    assert each.largest(x).tolist() == [617]
    assert each.full == 1000


def test_banned_rows_are_never_chosen() -> None:
    weight, x = random_weight(5000, 64), random_weight(3, 64, 1)
    banned = np.zeros(5000, np.float32)
    first = Int8Argmax(weight, banned).largest(x)
    banned[first] = -np.inf
    second = Int8Argmax(weight, banned).largest(x)
    assert not set(first.tolist()) & set(second.tolist())
    products = x @ weight.T + banned
    assert second.tolist() == products.argmax(axis=1).tolist()


def test_ranges_that_differ() -> None:
    """Rows and inputs of very different sizes, a row and an input of zeros."""
    weight, x = random_weight(4000, 96), random_weight(4, 96, 1)
    weight *= 10.0 ** np.random.RandomState(2).uniform(-6, 3, (4000, 1)).astype(np.float32)
    weight[5] = 0
    x *= np.array([[1e-4], [1], [1e4], [0]], np.float32)
    found = Int8Argmax(weight, np.zeros(4000, np.float32)).largest(x)
    assert found[:3].tolist() == (x @ weight.T).argmax(axis=1)[:3].tolist()
    assert 0 <= found[3] < 4000


def test_the_most_inputs() -> None:
    weight, x = random_weight(500, 32), random_weight(MOST_INPUTS, 32, 1)
    each = Int8Argmax(weight, np.zeros(500, np.float32))
    assert each.largest(x).tolist() == (x @ weight.T).argmax(axis=1).tolist()
    with pytest.raises(ValueError, match="at most 64"):
        each.largest(random_weight(MOST_INPUTS + 1, 32))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Translation works without the routine: nothing is raised where it is looked for, only where it is used."""
    monkeypatch.setattr(process.shutil, "which", lambda _name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    int8_argmax.library.cache_clear()
    try:
        assert int8_argmax.library() is None
        with pytest.raises(OSError, match="not compiled"):
            Int8Argmax(random_weight(4, 4), np.zeros(4, np.float32))
    finally:
        int8_argmax.library.cache_clear()
    monkeypatch.undo()
    assert int8_argmax.library() is not None
