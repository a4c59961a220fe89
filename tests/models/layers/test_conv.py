"""Convolutions against PyTorch's values (tests/golden/make_layers.py)."""

from __future__ import annotations

import io

import mlx.core as mx
import numpy as np
import pytest

from models.backend import on_cpu
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask, reflect_left
from tests.golden.layer_cases import CONV, TRANSPOSED, Conv
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden


@pytest.mark.parametrize("name", CONV)
def test_conv_equals_torch(name: str) -> None:
    assert checks.conv(CONV[name], golden("conv", name)) < TOLERANCE


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_conv_equals_torch(name: str) -> None:
    assert checks.transposed(TRANSPOSED[name], golden("transposed", name)) < TOLERANCE


@pytest.mark.parametrize("name", ["dilation5", "stride6", "depthwise_dilated"])
def test_lowered_equals_mlx(name: str) -> None:
    """Before `lower()` a layer is MLX's own convolution: both forms give one result."""
    case, values = CONV[name], golden("conv", name)
    layer = checks.conv_layer(case, values, lowered=False)
    assert checks.distance(layer(mx.array(values["x"])), values["y"]) < TOLERANCE


def test_one_tap_is_a_product() -> None:
    """On a GPU, where a layer stays as it is loaded."""
    layer = Conv1d(6, 10, 1)
    layer.apply(lambda array: mx.random.normal(array.shape, key=mx.random.key(array.size)))
    x, start = mx.random.normal((2, 7, 6)), mx.random.normal((2, 7, 10))
    wanted = mx.conv1d(x, layer.weight) + layer.bias
    assert checks.distance(layer(x), np.array(wanted)) < TOLERANCE
    assert checks.distance(layer(x, start), np.array(wanted + start)) < TOLERANCE
    assert "Convolution" not in graph(layer(x))
    assert "Convolution" in graph(Conv1d(6, 10, 3)(x))


def graph(y: mx.array) -> str:
    made = io.StringIO()
    mx.export_to_dot(made, y)
    return made.getvalue()


def test_lowering_twice_changes_nothing() -> None:
    case, values = CONV["stride6"], golden("conv", "stride6")
    layer, x = checks.conv_layer(case, values), mx.array(values["x"])
    before = np.array(layer(x))
    layer.lower()
    assert np.array_equal(before, np.array(layer(x)))


@pytest.mark.parametrize("name", ["dilation3", "depthwise", "stride6"])
def test_start_is_added(name: str) -> None:
    """`start` is the residual branch that accumulates in place."""
    case, values = CONV[name], golden("conv", name)
    layer, x = checks.conv_layer(case, values), mx.array(values["x"])
    start = mx.random.normal(values["y"].shape, key=mx.random.key(3))
    kept = np.array(start)
    assert checks.distance(layer(x, start), values["y"] + kept) < TOLERANCE
    assert np.array_equal(np.array(start), kept), "the caller's array must survive"


def test_own_padding_on_each_side() -> None:
    """`valid(x, left, right)` on parts of a sequence with their neighbors' rows equals the whole."""
    case, values = CONV["dilation3"], golden("conv", "dilation3")
    layer, x = checks.conv_layer(case, values), mx.array(values["x"])
    cut, reach = 14, case.padding
    left = layer.valid(x[:, : cut + reach], reach, 0)
    right = layer.valid(x[:, cut - reach :], 0, reach)
    assert checks.distance(mx.concatenate([left, right], axis=1) + layer.bias, values["y"]) < TOLERANCE


def test_zeroed_padding_equals_the_shorter_sequence() -> None:
    """Rows of zeros behind a sequence act as the convolution's own padding; padding to a bucket relies on it."""
    case, values = CONV["dilation5"], golden("conv", "dilation5")
    x = mx.pad(mx.array(values["x"]), ((0, 0), (0, 40), (0, 0)))
    y = checks.conv_layer(case, values)(x)[:, : case.length]
    assert checks.distance(y, values["y"]) < TOLERANCE


def test_weight_is_freed_by_lowering() -> None:
    """The loaded order is not kept beside the lowered one."""
    layer = checks.conv_layer(Conv(8, 6, 3, padding=1), golden("conv", "dilation1"))
    assert layer.weight.size == 8 * 6 * 3
    if on_cpu():
        assert layer.weight.shape == (3, 8, 6)


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_a_transposed_convolution_is_zero_beyond_its_valid_rows(groups: int, bias: bool) -> None:
    layer = ConvTranspose1d(6, 6, 3, stride=2, padding=1, output_padding=1, groups=groups, bias=bias)
    layer.update({name: mx.random.normal(array.shape) for name, array in layer.parameters().items()})
    x, valid = mx.random.normal((2, 9, 6)), PaddingMask.of(mx.array([18, 10])[:, None, None], 18)
    assert mx.array_equal(layer(x, valid), valid.zero(layer(x)))


def test_transposed_groups_are_all_or_one() -> None:
    with pytest.raises(ValueError, match="groups must be 1 or 6"):
        ConvTranspose1d(6, 6, 3, stride=2, groups=2)


def test_reflection_is_not_zero_padding() -> None:
    """Trap: the row that is prepended after the last upsampling is the second one, not zeros and not the first."""
    x = mx.array([[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]])
    assert np.array(reflect_left(x)).tolist() == [[[2, 20], [1, 10], [2, 20], [3, 30]]]


@pytest.mark.parametrize("name", ["dilation3", "dilation5", "pointwise"])
def test_output_channels_spread_over_streams(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Wide layers are cut by output channel, a cut a core: the same result, also onto a residual."""
    monkeypatch.setattr("models.layers.linear._MIN_COLUMNS", 2)
    case, values = CONV[name], golden("conv", name)
    layer = Conv1d(case.inputs, case.outputs, case.kernel, padding=case.padding, dilation=case.dilation, spread=True)
    layer.weight, layer.bias = mx.array(values["weight"]), mx.array(values["bias"])
    layer.lower()
    x = mx.array(values["x"])
    assert checks.distance(layer(x), values["y"]) < TOLERANCE
    assert checks.distance(layer(x, mx.full(values["y"].shape, 2.0)), values["y"] + 2) < TOLERANCE
