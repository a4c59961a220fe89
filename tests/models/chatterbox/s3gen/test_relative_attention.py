"""The kernel of attention with relative positions, its own source run on a CPU (emulator.py), against operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import relative_attention
from models.chatterbox.s3gen.relative_attention import (
    KERNEL,
    MAX_ROWS,
    SIZE,
    RelativeAttention,
    relative_attention_kernel,
    relative_attention_reference,
)
from models.layers.kernels import agreement
from models.layers.kernels.device import Device
from tests.models.emulator import launcher
from tests.models.metal import checker

Given = tuple[mx.array, ...]


def inputs(length: int, heads: int, reach: int, valid: list[int]) -> Given:
    shapes = ((len(valid), length, 3 * heads * SIZE), (heads, 2 * reach - 1, SIZE), (heads, SIZE), (heads, SIZE))
    given = [mx.random.normal(shape, key=mx.random.key(number)) for number, shape in enumerate(shapes)]
    there = mx.arange(length) < mx.array(valid)[:, None, None, None]
    return (*given, mx.where(there, 0.0, float("-inf")))


def compare(given: Given) -> None:
    found, wanted = relative_attention_kernel(*given), relative_attention_reference(*given)
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=2e-5, atol=2e-5)


# Rows, heads, distances that the table has, valid rows of each sequence.
@pytest.mark.parametrize(
    ("sizes", "backward", "device"),
    [
        ((37, 2, 64, [37, 30]), False, "cuda"),
        ((70, 1, 70, [70, 65]), True, "metal"),
        pytest.param((1, 1, 1, [1]), True, "cuda", marks=pytest.mark.proof),
        pytest.param((6, 3, 6, [6, 2]), False, "metal", marks=pytest.mark.proof),
    ],
)
def test_equals_plain_operations(
    sizes: tuple[int, int, int, list[int]], backward: bool, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str]()
    monkeypatch.setattr(relative_attention, "launch", launcher(device, backward=backward, seen=seen))
    compare(inputs(*sizes))
    assert seen == [KERNEL.name]


def test_it_is_metal(program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By clang's types and address spaces, with the signature that MLX writes."""
    seen = list[str]()
    monkeypatch.setattr(relative_attention, "launch", checker(program("clang"), seen))
    relative_attention_kernel(*inputs(6, 2, 6, [6]))
    assert seen == [KERNEL.name]


def test_it_is_chosen_where_it_agrees_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere plain operations are."""
    seen = list[str]()
    layer = RelativeAttention(2 * SIZE, 2)
    layer.pos_bias_u = mx.random.normal((2, SIZE))
    layer.linear_pos.weight = mx.random.normal((2 * SIZE, 2 * SIZE))
    layer.linear_qkv.weight = mx.random.normal((6 * SIZE, 2 * SIZE)) / 8
    layer.linear_out.weight = mx.eye(2 * SIZE)
    x = mx.random.normal((1, 9, 2 * SIZE))
    bias = mx.zeros((1, 1, 1, 9))
    layer.reserve(9)
    wanted = np.array(layer(x, bias))
    monkeypatch.setattr(agreement, "gpu", lambda: "cuda")
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(relative_attention, "launch", launcher("cuda", seen=seen))
    layer.reserve(9)
    np.testing.assert_allclose(np.array(layer(x, bias)), wanted, rtol=1e-4, atol=1e-4)
    assert len(seen) == 2  # the comparison, too
    np.testing.assert_allclose(np.array(layer(x, None)), wanted, rtol=1e-4, atol=1e-4)
    assert len(seen) == 2
    assert not relative_attention.fits(MAX_ROWS + 1, layer._table)
    assert not relative_attention.fits(9, mx.zeros((2, 17, 32)))
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(relative_attention, "launch", launcher("cuda", change=("/ sums[i]", ""), seen=seen))
    layer(x, bias)
    assert [each.used for each in agreement.report()] == [False]
    assert len(seen) == 3
