"""Distances and plain definitions for the tests of native kernels."""

from __future__ import annotations

import os
import subprocess
import sys

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


def run_with(instructions: str, tests: str) -> None:
    """Run the file `tests` with fewer instructions, in a process of its own; `off` skips all of it."""
    environment = os.environ | {"NATIVE_KERNELS": instructions}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode in (0, 5), done.stdout
    assert ("skipped" in done.stdout) == (instructions == "off"), done.stdout
