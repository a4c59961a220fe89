"""Excitation signal of Kokoro's generator, from F0: nine harmonics with noise."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.backend import compiled_cache, mx, on_cpu
from models.kokoro.config import SAMPLE_RATE
from models.layers.activation import sine
from models.layers.kernels.agreement import MAX_RELATIVE_ERROR_FLOAT32, relative_difference, usable
from models.layers.kernels.device import LANES, THREADS, Kernel, launch
from models.layers.vocoder import HarmonicSource, excitation
from models.native import kernels

HARMONICS = 9


class InterpolatedSource(HarmonicSource):
    """Nine harmonics of F0 and noise; the phase is linear between the centers of the steps.

    Reference: `SourceModuleHnNSF` and `SineGen` in `kokoro/istftnet.py`. Its phase reaches thousands of radians in
    float32. One unit in the last place then moves a sine by 1e-4, and the phase of a near-silent STFT bin by any angle.
    To be comparable, the functions below round as the reference does: the sum over time as in double precision, the
    interpolation as one fused multiply-add.
    """

    def __init__(self, samples_per_step: int) -> None:
        super().__init__(HARMONICS)
        self.samples_per_step = samples_per_step

    def __call__(self, f0: mx.array, noise: mx.array, steps: mx.array | None) -> mx.array:
        """Map f0 [B, T] Hz and merged noise [B, T * samples_per_step] to excitation [B, T * samples_per_step].

        `steps` [B, 1] are the valid steps of padded rows.
        """
        weight, bias = self.l_linear.weight, self.l_linear.bias
        if kernels.available():
            return kernels.excite(f0, noise, steps, weight, bias, SAMPLE_RATE)
        size = self.samples_per_step
        kernel = usable("the harmonic source's kernel", lambda: [_difference(size)], MAX_RELATIVE_ERROR_FLOAT32)
        return (harmonics_kernel if kernel else harmonics_reference)(f0, noise, steps, weight, bias, size)


def harmonics_reference(
    f0: mx.array, noise: mx.array, steps: mx.array | None, weight: mx.array, bias: mx.array, size: int
) -> mx.array:
    """Return the excitation [B, T * size].

    Args:
        f0: F0 in Hz [B, T].
        noise: Merged noise [B, T * size].
        steps: Valid steps of padded rows [B, 1]; the interpolation holds the last one.
        weight: Weight of the merge [1, 9].
        bias: Bias of the merge [1].
        size: Samples of a step.
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
    later = mx.array(_later_weights(length, size))
    half = size // 2
    here, before, after = phase[:, :, None], before[:, :, None], after[:, :, None]
    angle = mx.concatenate(
        [_blend()(before, here, later[:, :, :half]), _blend()(here, after, later[:, :, half:])], axis=2
    )
    waves, noise = sine(angle) @ weight[0], noise.reshape(batch, length, size)
    return excitation(waves, noise, bias, f0[:, :, None]).reshape(batch, length * size)


_HEADER = r"""
#define TURN 281474976710656.0f  // 2^48: a float's fraction of a turn above 2^-24 is a whole number of these parts

// The part of a turn by which a harmonic's phase grows in a step.
INLINE long growth(float f0, int harmonic, float rate) {
  const float turns = f0 * (float)(harmonic + 1) / rate;
  return (long)((turns - floorf(turns)) * TURN);
}

INLINE float radians_of(long parts, float steps) {
  return (float)parts * (1.0f / TURN) * 2.0f * 3.14159265358979f * steps;
}

INLINE long lane_sum(long v) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const int high = LANE_XOR((int)(v >> 32), mask), low = LANE_XOR((int)v, mask);
    v += ((long)high << 32) | (long)(uint)low;
  }
  return v;
}
"""

_SOURCE = r"""
    // A block has the samples between two neighboring steps' centers. It sums all that the phases have grown before, as
    // whole numbers: exact in any order, so that no block needs another's sum.
    const int T = f0_shape[1], before = BLOCK_X - 1, b = BLOCK_Y, early = max(before, 0);
    SHARED_ARRAY(long, parts, WARPS * 9);
    SHARED_ARRAY(float, phases, 18);
    long sums[9];
    UNROLL
    for (int k = 0; k < 9; ++k) sums[k] = 0;
    for (int t = THREAD; t <= early; t += WARPS * 32) {
      UNROLL
      for (int k = 0; k < 9; ++k) sums[k] += growth(f0[b * T + t], k, RATE);
    }
    UNROLL
    for (int k = 0; k < 9; ++k) {
      sums[k] = lane_sum(sums[k]);
      if (THREAD % 32 == 0) parts[THREAD / 32 * 9 + k] = sums[k];
    }
    SYNC();
    if (THREAD < 9) {
      long sum = 0;
      for (int w = 0; w < WARPS; ++w) sum += parts[w * 9 + THREAD];
      phases[THREAD] = radians_of(sum, SIZE);
      if (early + 1 < valid[b]) sum += growth(f0[b * T + early + 1], THREAD, RATE);  // the last valid step's is held
      phases[9 + THREAD] = radians_of(sum, SIZE);
    }
    SYNC();
    const int end = min(T * SIZE, (before + 1) * SIZE + SIZE / 2);
    for (int n = max(0, before * SIZE + SIZE / 2) + THREAD; n < end; n += WARPS * 32) {
      const float at = fmaxf(fmaf((float)n + 0.5f, 1.0f / SIZE, -0.5f), 0.0f), late = at - (float)early;
      float sum = 0.0f;
      UNROLL
      for (int k = 0; k < 9; ++k)
        sum = fmaf(weight[k], sinf(fmaf(1.0f - late, phases[k], late * phases[9 + k])), sum);
      const bool voiced = f0[b * T + n / SIZE] > 10.0f;
      const float level = voiced ? 0.003f : 0.1f / 3.0f;
      y[b * T * SIZE + n] = tanhf((voiced ? 0.1f * sum : 0.0f) + bias[0] + noise[b * T * SIZE + n] * level);
    }
"""
_INPUTS = ("f0", "noise", "valid", "weight", "bias")
KERNEL = Kernel("nightingale_harmonics", _INPUTS, ("y",), _SOURCE, _HEADER)


def harmonics_kernel(
    f0: mx.array, noise: mx.array, steps: mx.array | None, weight: mx.array, bias: mx.array, size: int
) -> mx.array:
    """Compute `harmonics_reference` in one kernel, of at most 2^15 steps."""
    batch, length = f0.shape
    valid = mx.full((batch,), length, dtype=mx.int32) if steps is None else steps[:, 0].astype(mx.int32)
    y: mx.array = launch(
        KERNEL,
        [f0, noise, valid, weight, bias],
        [((batch, length * size), mx.float32)],
        (length + 1, batch, 1),
        {"SIZE": size, "RATE": SAMPLE_RATE, "WARPS": THREADS // LANES},
    )[0]
    return y


def _difference(size: int) -> float:
    """Return the kernel's difference from the plain operations, on voiced and unvoiced steps and a padded row."""
    keys = mx.random.split(mx.random.key(0), 3)
    f0 = mx.maximum(mx.random.normal((2, 12), key=keys[0]) * 150 + 100, 0)
    noise, weight = mx.random.normal((2, 12 * size), key=keys[1]), mx.random.normal((1, HARMONICS), key=keys[2])
    given = (f0, noise, mx.array([[12], [7]]), weight, mx.array([0.01]), size)
    found, wanted = harmonics_kernel(*given), harmonics_reference(*given)
    return max(
        relative_difference(found[0], wanted[0]), relative_difference(found[1, : 7 * size], wanted[1, : 7 * size])
    )


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
def _later_weights(length: int, size: int) -> npt.NDArray[np.float32]:
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
