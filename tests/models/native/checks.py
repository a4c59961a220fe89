"""Distances and plain definitions for the tests of native kernels."""

from __future__ import annotations

import numpy as np

from models.backend import mx

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
