"""Harmonic-plus-noise excitation: F0 to the signal that drives the generator.

Wang et al. 2019 (neural source-filter, arXiv:1904.12088); reference: `SourceModuleHnNSF` and `SineGen` in
`kokoro/istftnet.py`. The reference's phase reaches thousands of radians in float32. One unit in the last place then
moves a sine by 1e-4, and the phase of a near-silent STFT bin by any angle. To be comparable, this module rounds as the
reference does: the sum over time as in double precision, the interpolation as one fused multiply-add.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.backend import compiled_cache, mx, on_cpu
from models.kokoro.config import SAMPLE_RATE
from models.layers.activation import sine
from models.layers.kernels import cuda
from models.layers.vocoder import HarmonicSource, excitation

HARMONICS = 9


class InterpolatedSource(HarmonicSource):
    """Nine harmonics of F0 and noise; the phase is linear between the centers of the steps."""

    def __init__(self, samples_per_step: int) -> None:
        super().__init__(HARMONICS)
        self.samples_per_step = samples_per_step

    def __call__(self, f0: mx.array, noise: mx.array, steps: mx.array | None) -> mx.array:
        """f0 [B, T] Hz and merged noise [B, T * samples_per_step] -> excitation [B, T * samples_per_step].

        `steps` [B, 1] are the valid steps of padded rows.
        """
        given = (f0, noise, steps, self.l_linear.weight, self.l_linear.bias, self.samples_per_step)
        return harmonics_cuda(*given) if cuda.available() else harmonics_reference(*given)


def harmonics_reference(
    f0: mx.array, noise: mx.array, steps: mx.array | None, weight: mx.array, bias: mx.array, size: int
) -> mx.array:
    """Excitation [B, T * size] from f0 [B, T] Hz, merged noise [B, T * size] and the merge's weight [1, 9] and bias.

    `steps` [B, 1] are the valid steps of padded rows: the interpolation holds the last one.
    """
    batch, length = f0.shape
    turns = f0[:, :, None] * mx.arange(1, HARMONICS + 1) / SAMPLE_RATE
    phase = rounded_cumsum(turns - mx.floor(turns)) * 2 * math.pi * size
    # Linear interpolation between the steps' centers, held at both ends.
    before = mx.concatenate([phase[:, :1], phase[:, :-1]], axis=1)
    after = mx.concatenate([phase[:, 1:], phase[:, -1:]], axis=1)
    if steps is not None:
        final = mx.arange(length)[None, :, None] == steps[:, :, None] - 1
        after = mx.where(final, phase, after)
    later = mx.array(_weights(length, size))
    half = size // 2
    here, before, after = phase[:, :, None], before[:, :, None], after[:, :, None]
    angle = mx.concatenate(
        [_blend()(before, here, later[:, :, :half]), _blend()(here, after, later[:, :, half:])], axis=2
    )
    waves, noise = sine(angle) @ weight[0], noise.reshape(batch, length, size)
    return excitation(waves, noise, bias, f0[:, :, None]).reshape(batch, length * size)


_PHASE = r"""
    // One thread a harmonic: the reference's sum over time, in double precision, rounded to float at each step.
    const int T = f0_shape[1];
    const int k = threadIdx.x, b = blockIdx.x;
    if (k >= 9) return;
    double sum = 0.0;
    for (int t = 0; t < T; ++t) {
      const float turns = __fdiv_rn(__fmul_rn(f0[b * T + t], (float)(k + 1)), 24000.0f);
      sum += (double)(turns - floorf(turns));
      const float radians = __fmul_rn(__fmul_rn((float)sum, 2.0f), 3.14159265358979f);
      phase[(b * T + t) * 9 + k] = __fmul_rn(radians, (float)SIZE);
    }
"""

_WAVE = r"""
    // One thread a sample: interpolate nine phases, sum their sines, add noise.
    const int T = f0_shape[1];
    const int n = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (n >= T * SIZE) return;
    const int steps = valid[b];
    const float at = fmaxf(__fmaf_rn((float)n + 0.5f, (float)(1.0 / SIZE), -0.5f), 0.0f);
    const int i = (int)at, j = min(i + 1, max(steps - 1, i));
    const float late = at - (float)i, early = 1.0f - late;
    const float* p = phase + (b * T + min(i, T - 1)) * 9;
    const float* q = phase + (b * T + min(j, T - 1)) * 9;
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 9; ++k) sum = fmaf(weight[k], sinf(__fmaf_rn(early, p[k], __fmul_rn(late, q[k]))), sum);
    const bool voiced = f0[b * T + n / SIZE] > 10.0f;
    const float level = voiced ? 0.003f : 0.1f / 3.0f;
    y[b * T * SIZE + n] = tanhf((voiced ? 0.1f * sum : 0.0f) + bias[0] + noise[b * T * SIZE + n] * level);
"""


def harmonics_cuda(
    f0: mx.array, noise: mx.array, steps: mx.array | None, weight: mx.array, bias: mx.array, size: int
) -> mx.array:
    """Compute the same in two kernels."""
    batch, length = f0.shape
    valid = mx.full((batch,), length, dtype=mx.int32) if steps is None else steps[:, 0].astype(mx.int32)
    phase = cuda.kernel("nightingale_phase", ("f0",), ("phase",), _PHASE)(
        inputs=[f0],
        output_shapes=[(batch, length, 9)],
        output_dtypes=[mx.float32],
        grid=(32 * batch, 1, 1),
        threadgroup=(32, 1, 1),
        template=[("SIZE", size)],
    )[0]
    inputs = ("f0", "noise", "valid", "phase", "weight", "bias")
    y: mx.array = cuda.kernel("nightingale_wave", inputs, ("y",), _WAVE)(
        inputs=[f0, noise, valid, phase, weight, bias],
        output_shapes=[(batch, length * size)],
        output_dtypes=[mx.float32],
        grid=(-(-length * size // 256) * 256, batch, 1),
        threadgroup=(256, 1, 1),
        template=[("SIZE", size)],
    )[0]
    return y


def rounded_cumsum(x: mx.array) -> mx.array:
    """Return the cumulative sum over axis 1 of values in [0, 1), as in double precision and rounded to float32.

    Multiples of 2^-12 and of 2^-24 add without error for up to 4096 values; smaller parts add in float32.
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
    """Return weights [1, length, size, 1] of the later step, at positions rounded as torch rounds them."""
    at = ((np.arange(length * size) + 0.5) * np.float64(np.float32(1 / size)) - 0.5).astype(np.float32)
    return (at - np.floor(at)).reshape(1, length, size, 1)


@compiled_cache
def _blend():  # type: ignore[no-untyped-def]
    """Return (1 - w) a + w b with the first product fused into the sum, as torch's interpolation is compiled."""

    def fused(a: mx.array, b: mx.array, w: mx.array) -> mx.array:
        first = (1 - w).astype(mx.float64) * a.astype(mx.float64)
        return (first + (w * b).astype(mx.float64)).astype(mx.float32)

    def plain(a: mx.array, b: mx.array, w: mx.array) -> mx.array:
        return (1 - w) * a + w * b

    return mx.compile(fused if on_cpu() else plain)
