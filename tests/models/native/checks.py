"""Distances and plain definitions for the tests of native kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.backend import mx

Floats = npt.NDArray[np.float32]
# Products of a transform lose up to two bits more than plain sums of float32.
CLOSE = 1e-5


def apart(found: mx.array, expected: mx.array) -> float:
    """Largest difference, relative to the largest number expected."""
    assert found.shape == expected.shape
    assert bool(mx.all(mx.isfinite(found)))
    return float(mx.max(mx.abs(found - expected)) / mx.maximum(mx.max(mx.abs(expected)), 1e-6))


def conv_reference(x: mx.array, taps: mx.array, dilation: int, left: int, right: int) -> mx.array:
    """Sum over the taps of one product each, in double precision."""
    padded = np.pad(np.array(x, dtype=np.float64), [(0, 0), (left, right), (0, 0)])
    kernel = np.array(taps, dtype=np.float64)
    rows = padded.shape[1] - (len(kernel) - 1) * dilation
    y = sum(padded[:, k * dilation : k * dilation + rows] @ kernel[k] for k in range(len(kernel)))
    return mx.array(np.asarray(y, dtype=np.float32))


def quantize_rows(weight: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return weight [N, K] with its rows in 8 bits [N, K], and their scales [N]."""
    scale = (np.maximum(np.abs(weight).max(axis=1), 1e-30) / 127).astype(np.float32)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def quantize_groups(weight: Floats, group: int = 64) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return weight [N, K] with groups of inputs in 4 bits [N, K], -8 to 7, and their scales [N, K / group].

    The number of a group that is farthest from zero is -8 of its scales. A last factor for each row makes the rounded
    weights the nearest of their direction.
    """
    groups = weight.reshape(len(weight), -1, group)
    most = np.take_along_axis(groups, np.abs(groups).argmax(axis=2)[..., None], axis=2)
    scale = (most / -8).astype(np.float32)
    copy = np.clip(np.rint(groups * np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)), -8, 7)
    near = (copy * scale).astype(np.float64)
    square = (near**2).sum(axis=(1, 2))
    product = (groups * near).sum(axis=(1, 2))
    scale *= np.divide(product, square, out=np.ones_like(square), where=square > 0)[:, None, None].astype(np.float32)
    return copy.astype(np.int8).reshape(weight.shape), scale[..., 0]


def rounded(weight: Floats, bits: int) -> npt.NDArray[np.float64]:
    """Return weight [N, K] as its rounding to 8 or 4 bits, or to bfloat16 (16), keeps it."""
    if bits == 16:
        whole = weight.view(np.uint32).astype(np.uint64)
        nearest = (whole + 0x7FFF + (whole >> 16 & 1)) & 0xFFFF0000
        return nearest.astype(np.uint32).view(np.float32).astype(np.float64)
    copy, scale = quantize_rows(weight) if bits == 8 else quantize_groups(weight)
    scales = scale.astype(np.float64).reshape(len(weight), -1)
    return copy.astype(np.float64) * np.repeat(scales, weight.shape[1] // scales.shape[1], axis=1)


def product_reference(x: Floats, weight: Floats, bits: int = 8) -> npt.NDArray[np.float64]:
    """Return the product [M, N] of x [M, K], in 8 bits but for weights in bfloat16, and weight [N, K] in `bits`."""
    if bits == 16:
        return x.astype(np.float64) @ rounded(weight, bits).T
    step = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-30).astype(np.float32) / np.float32(127)
    coarse = np.rint(x * (np.float32(1) / step)).astype(np.int64)
    product: npt.NDArray[np.float64] = (coarse @ rounded(weight, bits).T) * step.astype(np.float64)
    return product
