"""Products with weights of 8 bits: what they are, that they are used, and that nothing else changes."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.layers import int8
from models.layers.int8 import Int8Weights, product_reference
from models.layers.linear import Projection

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and on_cpu()), reason="stands before the BLAS of MLX's CPU back end on Linux"
)


def matrix(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal((rows, width)).astype(np.float32)


def test_the_routine_is_there() -> None:
    """On a Linux CPU it must be: what does not compile must not pass for what is not needed."""
    assert int8.library() is not None


@pytest.mark.parametrize("rows", [1, 2, 3, 31, 32, 33, 100])
@pytest.mark.parametrize("width", [64, 100, 1024])
def test_products_are_those_of_the_copies(rows: int, width: int) -> None:
    weight, x = mx.array(matrix(70, width)), matrix(rows, width, 1)
    plain = np.array(mx.array(x) @ weight.T)
    held = Int8Weights(weight)
    found = np.array(mx.array(x) @ weight.T)
    assert np.allclose(found, product_reference(x, np.array(weight)), rtol=1e-5, atol=1e-4)
    error = np.linalg.norm(found - plain) / np.linalg.norm(plain)
    assert 1e-4 < error < 1.5e-2, "near the product of the weights, and not that product"
    del held


def test_sums_are_added_to() -> None:
    weight, x, bias = mx.array(matrix(70, 64)), mx.array(matrix(5, 64, 1)), mx.array(matrix(1, 70, 2)[0])
    held = Int8Weights(weight)
    product = np.array(x @ weight.T)
    assert np.allclose(np.array(mx.addmm(bias, x, weight.T)), product + np.array(bias), atol=1e-5)
    assert np.allclose(np.array(mx.addmm(bias, x, weight.T, 0.5, 2.0)), 0.5 * product + 2 * np.array(bias), atol=1e-5)
    del held


def test_rows_do_not_depend_on_each_other() -> None:
    """A sentence is translated alike alone and in a batch."""
    weight, x = mx.array(matrix(70, 64)), matrix(40, 64, 1)
    held = Int8Weights(weight)
    whole = np.array(mx.array(x) @ weight.T)
    alone = np.concatenate([np.array(mx.array(row[None]) @ weight.T) for row in x])
    assert np.array_equal(whole, alone)
    del held


def test_other_matrices_are_left_alone() -> None:
    """Another one, a part of this one, and this one the other way round."""
    values = matrix(64, 64)
    weight, other, x = mx.array(values), mx.array(matrix(64, 64, 3)), matrix(3, 64, 1)
    held = Int8Weights(weight)
    for product, expected in (
        (mx.array(x) @ other.T, x @ np.array(other).T),
        (mx.array(x) @ weight[:32].T, x @ values[:32].T),
        (mx.array(x[:, :32]) @ weight[:, :32].T, x[:, :32] @ values[:, :32].T),
        (mx.array(x) @ weight, x @ values),
    ):
        assert np.allclose(np.array(product), expected, atol=1e-4)
    del held


def test_a_matrix_that_is_gone_is_forgotten() -> None:
    """Its memory may be another array's next."""
    weight, x = mx.array(matrix(70, 64)), mx.array(matrix(3, 64, 1))
    plain = np.array(x @ weight.T)
    held = Int8Weights(weight)
    assert not np.allclose(np.array(x @ weight.T), plain, atol=1e-4)
    del held
    gc.collect()
    assert np.allclose(np.array(x @ weight.T), plain, atol=1e-4)


def test_zeros_and_extremes() -> None:
    values = matrix(8, 64)
    values[0], values[1] = 0, 1e30
    weight, x = mx.array(values), np.zeros((2, 64), np.float32)
    x[1] = -1.0
    held = Int8Weights(weight)
    found = np.array(mx.array(x) @ weight.T)
    assert np.isfinite(found).all()
    assert (found[0] == 0).all()
    assert found[1, 0] == 0
    assert np.isclose(found[1, 1], -64e30, rtol=1e-2)
    del held


def test_projections_of_8_bits_use_it() -> None:
    layer = Projection(1024, 512)
    layer.weight = mx.array(matrix(512, 1024))
    x = matrix(1, 1024, 1)
    whole = x @ matrix(512, 1024).T
    layer.lower(8)
    found = np.array(layer(mx.array(x)))
    assert np.allclose(found, product_reference(x, matrix(512, 1024)), rtol=1e-5, atol=1e-3)
    assert not np.allclose(found, whole, atol=1e-3)
