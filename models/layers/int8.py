"""Plain definitions of products with weights of 8 bits: see `models.native.transformer`, and the tests that compare."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def quantize_rows(weight: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return weight [N, K] with its rows in 8 bits [N, K], and their scales [N]."""
    scale = (np.maximum(np.abs(weight).max(axis=1), 1e-30) / 127).astype(np.float32)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def product_reference(x: Floats, weight: Floats) -> npt.NDArray[np.float64]:
    """Return the product [M, N] of x [M, K] and weight [N, K], both rounded to 8 bits, with exact integers."""
    copy, scale = quantize_rows(weight)
    step = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-30).astype(np.float32) / np.float32(127)
    coarse = np.rint(x * (np.float32(1) / step)).astype(np.int64)
    product: npt.NDArray[np.float64] = (coarse @ copy.astype(np.int64).T) * (scale * step).astype(np.float64)
    return product
