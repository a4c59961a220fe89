"""Harmonic-plus-noise excitation: F0 to the signal that drives the generator.

Wang et al. 2019 (neural source-filter, arXiv:1904.12088); reference: `SourceModuleHnNSF` and `SineGen` in
`kokoro/istftnet.py`. The reference's phase reaches thousands of radians in float32, where one unit in the last place
moves a sine by 1e-4, and the phase of a near-silent STFT bin by anything. To be comparable with it, its rounding is
kept: the sum over time as if in double precision, the interpolation as one fused multiply-add.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.backend import mx, on_cpu
from models.kokoro.config import SAMPLE_RATE
from models.layers.activation import sine
from models.layers.compiled import compiled_cache
from models.layers.harmonic_source import HarmonicSource, excitation
from models.layers.kernels import cuda

HARMONICS = 9


class InterpolatedSource(HarmonicSource):
    """Nine harmonics of F0, their phase linear between the centers of the steps, and noise."""

    def __init__(self, samples_per_step: int) -> None:
        super().__init__(HARMONICS)
        self.samples_per_step = samples_per_step

    def __call__(self, f0: mx.array, noise: mx.array, steps: mx.array | None) -> mx.array:
        """f0 [B, T] Hz and merged noise [B, T * samples_per_step] -> excitation [B, T * samples_per_step]."""
        batch, length = f0.shape
        size = self.samples_per_step
        if cuda.available():
            valid = mx.full((batch,), length, dtype=mx.int32) if steps is None else steps[:, 0].astype(mx.int32)
            return cuda.harmonics(f0, noise, valid, self.l_linear.weight, self.l_linear.bias, size)
        turns = f0[:, :, None] * mx.arange(1, HARMONICS + 1) / SAMPLE_RATE
        phase = rounded_cumsum(turns - mx.floor(turns)) * 2 * math.pi * size
        # Linear interpolation between the steps' centers, held at both ends.
        before = mx.concatenate([phase[:, :1], phase[:, :-1]], axis=1)
        after = mx.concatenate([phase[:, 1:], phase[:, -1:]], axis=1)
        if steps is not None:
            final = mx.arange(length)[None, :, None] == steps[:, :, None] - 1
            after = mx.where(final, phase, after)
        weight = mx.array(_weights(length, size))
        half = size // 2
        here, before, after = phase[:, :, None], before[:, :, None], after[:, :, None]
        angle = mx.concatenate(
            [_blend()(before, here, weight[:, :, :half]), _blend()(here, after, weight[:, :, half:])], axis=2
        )
        waves = sine(angle) @ self.l_linear.weight[0]
        noise = noise.reshape(batch, length, size)
        return excitation(waves, noise, self.l_linear.bias, f0[:, :, None]).reshape(batch, length * size)


def rounded_cumsum(x: mx.array) -> mx.array:
    """Cumulative sum over axis 1 of values in [0, 1), as summed in double precision and rounded to float32.

    Multiples of 2^-12 and of 2^-24 add without error for up to 4096 values; what is below adds in float32.
    """
    grid = 4096.0
    coarse = mx.floor(x * grid) / grid
    rest = x - coarse
    middle = mx.floor(rest * grid * grid) / (grid * grid)
    fine = mx.cumsum(rest - middle, axis=1)
    middle = mx.cumsum(middle, axis=1)
    carried = mx.floor(middle * grid) / grid
    return (mx.cumsum(coarse, axis=1) + carried) + ((middle - carried) + fine)


@lru_cache(maxsize=16)
def _weights(length: int, size: int) -> npt.NDArray[np.float32]:
    """Interpolation weights [1, length, size, 1] of the later step, at positions rounded as torch rounds them."""
    at = ((np.arange(length * size) + 0.5) * np.float64(np.float32(1 / size)) - 0.5).astype(np.float32)
    return (at - np.floor(at)).reshape(1, length, size, 1)


@compiled_cache
def _blend():  # type: ignore[no-untyped-def]
    """(1 - w) a + w b with the first product fused into the sum, as torch's interpolation is compiled."""

    def fused(a: mx.array, b: mx.array, w: mx.array) -> mx.array:
        first = (1 - w).astype(mx.float64) * a.astype(mx.float64)
        return (first + (w * b).astype(mx.float64)).astype(mx.float32)

    def plain(a: mx.array, b: mx.array, w: mx.array) -> mx.array:
        return (1 - w) * a + w * b

    return mx.compile(fused if on_cpu() else plain)
