"""Native kernels of Transformers against their plain definitions, for every set of instructions of this processor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn

from models.backend import mx
from models.layers import activation, attention
from models.layers.linear import Projection, prepare
from models.native import kernels, transformer
from models.native.transformer import Before, Int8Argmax, PackedMatrix, PlainArgmax
from models.nllb.kernels import step
from tests.models.native.checks import product_reference, rounded

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no native kernels on this device")


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def packed(weight: np.ndarray, bias: np.ndarray | None = None, *, bits: int = 8) -> PackedMatrix:
    found = PackedMatrix.pack(mx.array(weight), None if bias is None else mx.array(bias), bits=bits)
    assert found.bits == bits
    return found


# Of the difference from the product of the weights themselves: near it, and not that product. With 4 bits 9 of 10 parts
# of random weights are kept.
ERRORS = {4: (2e-2, 0.15), 8: (1e-6, 2e-2), 16: (1e-4, 5e-3)}


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 7, 8, 31, 48, 49, 100])
@pytest.mark.parametrize(
    ("bits", "outputs", "width"),
    [
        *((bits, *size) for bits in (8, 16) for size in ((70, 64), (1, 3), (16, 100), (130, 1024), (17, 129))),
        *((4, *size) for size in ((70, 64), (1, 64), (16, 128), (130, 1024), (17, 192))),
    ],
)
def test_products_are_those_of_the_copies(bits: int, outputs: int, width: int, rows: int) -> None:
    weight, x = random_array(outputs, width), random_array(rows, width, seed=1)
    plain, found = x @ weight.T, np.array(packed(weight, bits=bits)(mx.array(x)))
    assert np.allclose(found, product_reference(x, weight, bits), rtol=1e-5, atol=3e-4 if bits == 4 else 1e-4)
    least, most = ERRORS[bits]
    assert least < np.linalg.norm(found - plain) / np.linalg.norm(plain) < most


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_sums(bits: int) -> None:
    weight, x, bias = random_array(70, 64), random_array(2, 5, 64, seed=1), random_array(70, seed=2)
    product = np.array(packed(weight, bits=bits)(mx.array(x)))
    add = random_array(2, 5, 70, seed=3)
    assert np.allclose(np.array(packed(weight, bias, bits=bits)(mx.array(x))), product + bias, atol=1e-5)
    assert np.allclose(np.array(packed(weight, bits=bits)(mx.array(x), add=mx.array(add))), product + add, atol=1e-5)
    both = packed(weight, bias, bits=bits)(mx.array(x), add=mx.array(add))
    assert np.allclose(np.array(both), product + bias + add, atol=1e-5)


@pytest.mark.parametrize("width", [5, 16, 67, 1024])
@pytest.mark.parametrize("kind", list(Before))
def test_functions_of_the_input(kind: Before, width: int) -> None:
    weight = random_array(40, width)
    x = mx.array(3 * random_array(7, 2 * width if kind == Before.SWIGLU else width, seed=1))
    before = np.array(prepare(x, kind))
    if kind == Before.EXACT_GELU:
        erf = np.vectorize(math.erf)(np.array(x) * math.sqrt(0.5))
        assert np.allclose(before, np.array(x) * (1 + erf) / 2, atol=1e-5)
    expected = product_reference(before, weight)
    assert np.allclose(
        np.array(packed(weight)(x, before=kind)), expected, rtol=1e-3, atol=2e-3 * np.abs(expected).max()
    )


@pytest.mark.parametrize("width", [5, 16, 67, 1024])
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_norms_of_the_input(kind: type[nn.LayerNorm | nn.RMSNorm], width: int) -> None:
    norm, weight, x = kind(width), random_array(40, width), mx.array(random_array(7, width, seed=1) + 5)
    norm.weight = mx.array(random_array(width, seed=2))
    if isinstance(norm, nn.LayerNorm):
        norm.bias = mx.array(random_array(width, seed=3))
    expected = product_reference(np.array(norm(x)), weight)
    assert np.allclose(np.array(packed(weight)(x, norm=norm)), expected, rtol=1e-3, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize(("rows", "width"), [(1201, 512), (250, 2112)])
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_more_rows_than_the_cache_holds(bits: int, rows: int, width: int) -> None:
    """They are taken in parts, the last of them short: each row is as among few."""
    matrix, x = packed(random_array(40, width), random_array(40, seed=1), bits=bits), random_array(rows, width, seed=2)
    add = random_array(rows, 40, seed=3)
    found = np.array(matrix(mx.array(x), add=mx.array(add)))
    for first in range(0, rows, 40):
        part = slice(first, first + 40)
        alone = np.array(matrix(mx.array(x[part]), add=mx.array(add[part])))
        assert np.allclose(found[part], alone, rtol=1e-5, atol=1e-5)


def test_rows_as_heads() -> None:
    x = random_array(2, 7, 3 * 4 * 5)
    wanted = x.reshape(2, 7, 3, 4, 5).transpose(2, 0, 3, 1, 4)
    assert np.array_equal(np.array(transformer.to_heads(mx.array(x), 3, 5)), wanted)
    with pytest.raises(ValueError, match="to_heads"):
        transformer.to_heads(mx.array(x), 7, 5)


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_rows_do_not_depend_on_each_other(bits: int) -> None:
    """A sentence is translated alike alone and in a batch."""
    matrix, x = packed(random_array(170, 128), bits=bits), random_array(40, 128, seed=1)
    whole = np.array(matrix(mx.array(x)))
    for size in (1, 2, 3, 7):
        parts = [np.array(matrix(mx.array(x[start : start + size]))) for start in range(0, 40, size)]
        assert np.array_equal(whole, np.concatenate(parts))


def test_views_are_read_as_views() -> None:
    matrix, x = packed(random_array(70, 32)), mx.array(random_array(6, 128, seed=1))
    view = x[::2, 16:48]
    assert np.array_equal(np.array(matrix(view)), np.array(matrix(mx.array(np.array(view)))))


@pytest.mark.parametrize("bits", [8, 4])
def test_zeros_and_extremes(bits: int) -> None:
    weight, x = random_array(8, 64), np.zeros((2, 64), np.float32)
    weight[0], weight[1], x[1] = 0, 1e30, -1
    found = np.array(packed(weight, bits=bits)(mx.array(x)))
    assert np.isfinite(found).all()
    assert (found[0] == 0).all()
    assert found[1, 0] == 0
    assert np.isclose(found[1, 1], -64e30, rtol=1e-2)


@pytest.mark.parametrize(("bits", "width"), [(16, 67), (8, 67), (4, 128)])
def test_rows_of_weights(bits: int, width: int) -> None:
    weight = random_array(70, width)
    weight[5, :64] = 0
    found = packed(weight, bits=bits).rows(mx.array([[0, 69], [16, 5]]), 4.0)
    assert np.allclose(np.array(found), 4 * rounded(weight, bits)[[[0, 69], [16, 5]]], rtol=1e-6, atol=1e-7)


def test_packed_rows_are_packed_alike() -> None:
    """A shortlist of rounded weights loses nothing."""
    matrix = packed(random_array(70, 67))
    again = PackedMatrix.pack(matrix.rows(mx.arange(70)))
    assert np.array_equal(np.array(again.weights), np.array(matrix.weights))


def test_what_does_not_fit_is_refused() -> None:
    matrix = packed(random_array(70, 64))
    with pytest.raises(ValueError, match="do not fit"):
        matrix(mx.zeros((2, 65)))
    with pytest.raises(ValueError, match="do not fit"):
        matrix(mx.zeros((2, 64)), add=mx.zeros((3, 70)))
    assert PackedMatrix.pack(mx.zeros((8, 64), dtype=mx.bfloat16)) is None
    assert PackedMatrix.pack(mx.zeros((8, 67)), bits=4) is None, "no whole groups"
    assert PackedMatrix.pack(mx.zeros((8, 64)), bits=0) is None


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_quantized_projections_use_it(bits: int) -> None:
    layer = Projection(1024, 512)
    weight, x = random_array(512, 1024), random_array(1, 1024, seed=1)
    layer.weight = mx.array(weight)
    layer.lower(bits)
    assert layer.weight.size == 0
    assert np.allclose(np.array(layer(mx.array(x))), product_reference(x, weight, bits), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("bits", [0, 4, 8, 16])
def test_one_kernel_equals_its_parts(bits: int) -> None:
    """`after` with weights of any bits: add + W norm(x) + b."""
    layer, norm = Projection(128, 96), nn.LayerNorm(128)
    layer.weight, layer.bias = mx.array(random_array(96, 128) / 8), mx.array(random_array(96, seed=1))
    x, add = mx.array(random_array(2, 3, 128, seed=2)), mx.array(random_array(2, 3, 96, seed=3))
    layer.lower(bits)
    parts = add + layer(norm(x))
    assert float(mx.max(mx.abs(layer.after(x, norm=norm, add=add) - parts))) < 0.03
    assert float(mx.max(mx.abs(layer.after(x, before=Before.RELU) - layer(mx.maximum(x, 0))))) < 0.03


def test_largest_product_in_bfloat16() -> None:
    weight, x = random_array(1000, 64), random_array(5, 64, seed=1)
    products = x.astype(np.float64) @ rounded(weight, 16).T
    banned = np.zeros(1000, np.float32)
    first = PlainArgmax(packed(weight, bits=16), banned).largest(mx.array(x))
    assert np.array(first).tolist() == products.argmax(axis=1).tolist()
    banned[products.argmax(axis=1)] = -np.inf
    second = PlainArgmax(packed(weight, bits=16), banned).largest(mx.array(x))
    assert np.array(second).tolist() == (products + banned).argmax(axis=1).tolist()


def searched(weight: np.ndarray, x: np.ndarray, banned: np.ndarray | None = None) -> tuple[list[int], int]:
    banned = np.zeros(len(weight), np.float32) if banned is None else banned
    search = Int8Argmax(packed(weight), banned, mx.array(weight))
    found = np.array(search.largest(mx.array(x)))
    return found.tolist(), search.full


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3000), st.integers(1, 150), st.integers(1, 70), st.sampled_from([32, 8, 4]), st.integers(0, 10**6)
)
def test_largest_product(rows: int, width: int, count: int, bits: int, seed: int) -> None:
    """With float32 weights beside their 8 bits; without them it is exact for those of 8 or 4 bits."""
    width = width if bits != 4 else (width + 63) // 64 * 64
    weight, x = random_array(rows, width, seed=seed), random_array(count, width, seed=seed + 1)
    products = x.astype(np.float64) @ (weight if bits == 32 else rounded(weight, bits)).T
    matrix, exact = packed(weight, bits=min(bits, 8)), mx.array(weight) if bits == 32 else None
    found = np.array(Int8Argmax(matrix, np.zeros(rows, np.float32), exact).largest(mx.array(x)))
    best = products.max(axis=1)
    assert np.all(products[np.arange(count), found] >= best - 1e-5 * np.abs(best) - 1e-5)


@pytest.mark.parametrize("kind", ["normal", "outliers", "alike", "heavy"])
def test_largest_product_by_a_copy_of_4_bits(kind: str) -> None:
    """Also where weights or inputs have large numbers in few places, or an input is near a row of the weights."""
    weight, x = random_array(20_000, 256), random_array(50, 256, seed=1)
    if kind == "outliers":
        x[:, ::50] *= 30
    elif kind == "alike":
        x = weight[::400] + 0.3 * x
    elif kind == "heavy":
        weight, x = weight**3, (weight[::400] ** 3 + x)
    search = Int8Argmax(packed(weight), np.zeros(len(weight), np.float32))
    assert len(search._rough) == 4
    products = x.astype(np.float64) @ rounded(weight, 8).T
    best, full = products.max(axis=1), 0
    for start in range(0, 50, 5):  # few rows at a time, as it is for these
        found = np.array(search.largest(mx.array(x[start : start + 5])))
        rows = np.arange(start, start + 5)
        assert np.all(products[rows, found] >= best[rows] - 1e-5 * np.abs(best[rows]))
        full += search.full
    assert full < 50 * 300


def test_few_are_computed_in_full() -> None:
    """Or it would be slower than the product it replaces."""
    _, full = searched(random_array(20_000, 256), random_array(4, 256, seed=1))
    assert 4 <= full < 4 * 400


@pytest.mark.parametrize(("gap", "largest"), [(1e-3, 617), (1e-4, 617), (0.0, 0)])
def test_near_ties(gap: float, largest: int) -> None:
    """Rows that 8 bits cannot tell apart: copies of one, a single one of them a little louder. Of equals the first."""
    weight = np.repeat(random_array(1, 256), 1000, axis=0)
    x = weight[:1].copy()
    weight[617] *= 1 + gap
    assert searched(weight, x) == ([largest], 1000)


def test_banned_rows_are_never_chosen() -> None:
    weight, x = random_array(5000, 64), random_array(3, 64, seed=1)
    banned = np.zeros(5000, np.float32)
    first, _ = searched(weight, x, banned)
    banned[first] = -np.inf
    second, _ = searched(weight, x, banned)
    assert not set(first) & set(second)
    assert second == (x @ weight.T + banned).argmax(axis=1).tolist()


def test_ranges_that_differ() -> None:
    """Rows and inputs of very different sizes, a row and an input of zeros."""
    weight, x = random_array(4000, 96), random_array(4, 96, seed=1)
    weight *= 10.0 ** np.random.RandomState(2).uniform(-6, 3, (4000, 1)).astype(np.float32)
    weight[5] = 0
    x *= np.array([[1e-4], [1], [1e4], [0]], np.float32)
    found, _ = searched(weight, x)
    assert found[:3] == (x @ weight.T).argmax(axis=1)[:3].tolist()
    assert 0 <= found[3] < 4000


SHAPES = [(1, 1, 2, 8, 5), (2, 7, 3, 20, 7), (2, 3, 16, 64, 33), (1, 50, 4, 128, 66), (3, 1, 1, 6, 1)]


def apart(found: mx.array, expected: mx.array) -> float:
    assert found.shape == expected.shape
    return float(mx.max(mx.abs(found - expected)))


def padded_bias(batch: int, keys: int) -> mx.array:
    """Bias [B, 1, 1, S]; the last sequence has as few keys as possible."""
    counts = mx.array([[keys]] * (batch - 1) + [[1]])
    return mx.where(mx.arange(keys) < counts, 0.0, -math.inf)[:, None, None]


@pytest.mark.parametrize(("batch", "count", "heads", "size", "keys"), SHAPES)
def test_attention(batch: int, count: int, heads: int, size: int, keys: int) -> None:
    width = heads * size
    qkv = mx.random.normal((batch, count, 3 * width))
    bias = padded_bias(batch, count)
    assert apart(transformer.attend(qkv, None, bias, heads), step.attend_reference(qkv, bias, heads)) < 1e-5
    q, memory = mx.random.normal((batch, count, width)), mx.random.normal((batch, 2 * heads, keys, size))
    bias = padded_bias(batch, keys)
    expected = step.cross_attend_reference(q, memory, bias, heads)
    assert apart(transformer.attend(q, memory, bias, heads), expected) < 1e-5
    half = memory.astype(mx.bfloat16)
    expected = step.cross_attend_reference(q, half.astype(mx.float32), bias, heads)
    for each in (half, mx.swapaxes(mx.contiguous(mx.swapaxes(half, 2, 3)), 2, 3)):
        assert apart(transformer.attend(q, each, bias, heads), expected) < 1e-5


@pytest.mark.parametrize("place", [0, 5, 9])
@pytest.mark.parametrize(
    ("batch", "count", "heads", "size"), [*(shape[:4] for shape in SHAPES), (2, 17, 3, 20), (1, 440, 2, 64)]
)
@pytest.mark.parametrize("rotary", [False, True])
def test_attention_to_a_cache(batch: int, count: int, heads: int, size: int, place: int, rotary: bool) -> None:
    qkv = mx.random.normal((batch, count, 3 * heads * size))
    past, at = mx.random.normal((batch, 2 * heads, count + 9, size)), mx.array([place])
    bias = mx.where(mx.arange(count + 9) <= (at + mx.arange(count))[:, None], 0.0, -math.inf)
    wavelengths = mx.exp(mx.arange(size // 2) / 3) if rotary else None
    turned = qkv
    if rotary:
        queries, values = qkv[..., : 2 * heads * size], qkv[..., 2 * heads * size :]
        rows = queries.reshape(batch, count, 2 * heads, size).swapaxes(1, 2)
        rows = mx.fast.rope(rows, size, traditional=False, base=None, scale=1.0, offset=place, freqs=wavelengths)
        turned = mx.concatenate([rows.swapaxes(1, 2).reshape(queries.shape), values], axis=-1)
    expected, after = step.self_attend_reference(turned, past, at, bias, heads)
    before = np.array(past)
    found, kept = transformer.step_attend(qkv, past, at, heads, wavelengths)
    assert apart(found, expected) < 2e-5
    assert apart(kept, after) < 2e-5
    assert np.array_equal(np.array(past), before), "another reader of the cache sees no change"


def test_a_cache_that_nobody_else_reads_is_written_in_place() -> None:
    past = mx.zeros((1, 4, 64, 64))
    mx.eval(past)
    for place in range(3):
        address = np.array(past, copy=False).ctypes.data
        y, past = transformer.step_attend(mx.random.normal((1, 1, 384)), past, mx.array([place]), 2)
        mx.eval(y)
        assert np.array(past, copy=False).ctypes.data == address


@pytest.mark.parametrize("width", [1, 3, 16, 50, 4096, 300_001])
def test_log_sum_exp(width: int) -> None:
    x = 20 * random_array(3, width)
    x[1, : width // 2] = -np.inf
    expected = np.logaddexp.reduce(x.astype(np.float64), axis=-1, keepdims=True)
    assert np.allclose(np.array(transformer.log_sum_exp(mx.array(x))), expected, rtol=1e-6, atol=1e-6)
    found = transformer.log_sum_exp(mx.full((1, width), 3.0))
    assert np.allclose(np.array(found), 3 + math.log(width), rtol=1e-6, atol=1e-6)


def test_attention_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        transformer.attend(mx.zeros((1, 3, 12)), mx.zeros((1, 4, 5, 5)), None, 2)
    with pytest.raises(ValueError, match="do not fit"):
        transformer.attend(mx.zeros((1, 3, 12)), None, mx.zeros((1, 1, 1, 4)), 2)
    with pytest.raises(ValueError, match="do not fit"):
        transformer.step_attend(mx.zeros((1, 3, 12)), mx.zeros((1, 4, 2, 2)), mx.array([0]), 2)


def test_gelu_equals_the_plain_operations() -> None:
    """By erf, in parts that are shared out."""
    x = mx.array(3 * random_array(3, 1001, 70))
    wanted = activation.gelu(x, mx.zeros((1,)))
    assert float(mx.max(mx.abs(transformer.gelu(x) - wanted))) < 5e-6


@pytest.mark.parametrize("length", [128, 129, 500])
def test_attention_of_many_queries_goes_by_tiles(length: int) -> None:
    heads, size = 3, 64
    qkv = mx.array(random_array(2, length, 3 * heads * size))
    bias = mx.where(mx.arange(length) < length - 7, 0.0, float("-inf"))[None, None, None].astype(mx.float32)
    bias = mx.concatenate([bias, mx.zeros_like(bias)])
    q, k, v = mx.split(qkv.reshape(2, length, 3 * heads, size).swapaxes(1, 2), 3, axis=1)
    for mask in (None, bias):
        wanted = attention.attend(q, k, v, size**-0.5, mask).swapaxes(1, 2).reshape(2, length, -1)
        assert float(mx.max(mx.abs(transformer.attend(qkv, None, mask, heads) - wanted))) < 1e-5
