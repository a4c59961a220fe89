"""AdaIN and the activation after it: plain operations, and one CUDA kernel that does both.

AdaIN: Huang and Belongie 2017, arXiv:1703.06868 (see `norm`). With Snake the plain definition is `snake.SnakeConv`,
which also convolves.
"""

from __future__ import annotations

from models.backend import mx
from models.layers.activation import leaky_relu
from models.layers.compiled import compiled_cache
from models.layers.kernels import cuda
from models.layers.norm import affine_of, moments
from models.layers.padding import PaddingMask

SLOPE = 0.2  # of LeakyReLU


def adain_leaky(x: mx.array, affine: mx.array, valid: PaddingMask) -> mx.array:
    """LeakyReLU of AdaIN of x [B, L, C] by affine [B, 2C] (gamma, then beta); zero on padding."""
    if cuda.available():
        return adain_cuda(x, affine, None, valid.number(x))
    return adain_leaky_reference(x, affine, valid)


@compiled_cache
def _affine_leaky():  # type: ignore[no-untyped-def]
    return mx.compile(lambda x, scale, shift: leaky_relu(x * scale + shift, SLOPE))


def adain_leaky_reference(x: mx.array, affine: mx.array, valid: PaddingMask) -> mx.array:
    """The plain definition of `adain_leaky`."""
    gamma, beta = mx.split(affine[:, None], 2, axis=-1)
    scale, shift = affine_of([moments(x, valid.mask, valid.count)], gamma, beta)
    return valid.zero(_affine_leaky()(x, scale, shift))


_MOMENTS = r"""
    // Mean and sum of squared deviations of SPLITS runs of rows, shifted by the run's first row against cancellation.
    const int L = x_shape[1], C = x_shape[2], SPLITS = gridDim.y;
    const int c = blockIdx.x * 32 + threadIdx.x, split = blockIdx.y, b = blockIdx.z;
    const int valid = count[b];
    const int per = (valid + SPLITS - 1) / SPLITS;
    const int start = split * per, stop = min(valid, start + per);
    const int n = max(0, stop - start);
    const bool live = c < C && n > 0;
    const X* from = x + ((long long)b * L + start) * C + c;
    const float pivot = live ? (float)from[0] : 0.0f;
    float s1 = 0.0f, s2 = 0.0f;
    if (live) {
      for (int r = threadIdx.y; r < n; r += 8) {
        const float d = (float)from[(long long)r * C] - pivot;
        s1 += d;
        s2 = fmaf(d, d, s2);
      }
    }
    __shared__ float a1[8][32], a2[8][32];
    a1[threadIdx.y][threadIdx.x] = s1;
    a2[threadIdx.y][threadIdx.x] = s2;
    __syncthreads();
    if (threadIdx.y == 0 && c < C) {
      for (int r = 1; r < 8; ++r) { s1 += a1[r][threadIdx.x]; s2 += a2[r][threadIdx.x]; }
      float* to = partial + ((b * SPLITS + split) * 2) * C + c;
      to[0] = n ? pivot + s1 / n : 0.0f;
      to[C] = n ? fmaxf(s2 - s1 * s1 / n, 0.0f) : 0.0f;
    }
"""

_APPLY = r"""
    // Combine the runs' moments (Chan's formula), normalize with style, activate; rows beyond the valid ones are 0.
    const int L = x_shape[1], C = x_shape[2], SPLITS = partial_shape[1];
    const int c = blockIdx.x * 32 + threadIdx.x, b = blockIdx.z;
    const int valid = count[b];
    __shared__ float scales[32], shifts[32];
    if (threadIdx.y == 0 && c < C) {
      const int per = (valid + SPLITS - 1) / SPLITS;
      float mean = 0.0f, m2 = 0.0f, seen = 0.0f;
      for (int s = 0; s < SPLITS; ++s) {
        const float n = (float)max(0, min(valid, (s + 1) * per) - s * per);
        if (n == 0.0f) continue;
        const float* from = partial + ((b * SPLITS + s) * 2) * C + c;
        const float d = from[0] - mean, total = seen + n;
        mean += d * (n / total);
        m2 += from[C] + d * d * (seen * n / total);
        seen = total;
      }
      const float scale = (1.0f + (float)affine[b * 2 * C + c]) * rsqrtf(m2 / fmaxf(seen, 1.0f) + 1e-5f);
      scales[threadIdx.x] = scale;
      shifts[threadIdx.x] = (float)affine[b * 2 * C + C + c] - mean * scale;
    }
    __syncthreads();
    if (c >= C) return;
    const float scale = scales[threadIdx.x], shift = shifts[threadIdx.x];
    const float a = SNAKE ? (float)alpha[c] : 0.0f;
    const int end = min(L, (int)(blockIdx.y + 1) * ROWS);
    for (int r = blockIdx.y * ROWS + threadIdx.y; r < end; r += 8) {
      const long long at = ((long long)b * L + r) * C + c;
      float v = 0.0f;
      if (r < valid) {
        v = fmaf((float)x[at], scale, shift);
        if (SNAKE) {
          const float s = sinf(a * v);
          v += s * s / a;
        } else {
          v = v > 0.0f ? v : 0.2f * v;
        }
      }
      y[at] = (X)v;
    }
"""


def adain_cuda(x: mx.array, affine: mx.array, alpha: mx.array | None, count: mx.array) -> mx.array:
    """AdaIN of x [B, L, C] by affine [B, 2C] over count [B] rows, then Snake (alpha [C]) or LeakyReLU 0.2 (None)."""
    batch, length, channels = x.shape
    tiles = -(-channels // 32)
    splits = max(1, min(64, length // 128))
    moments = cuda.kernel("nightingale_moments", ("x", "count"), ("partial",), _MOMENTS)
    partial = moments(
        inputs=[x, count],
        output_shapes=[(batch, splits, 2, channels)],
        output_dtypes=[mx.float32],
        grid=(tiles * 32, splits * 8, batch),
        threadgroup=(32, 8, 1),
        template=[("X", x.dtype)],
    )[0]
    rows = 64
    activate = cuda.kernel("nightingale_adain", ("x", "count", "partial", "affine", "alpha"), ("y",), _APPLY)
    y: mx.array = activate(
        inputs=[x, count, partial, affine, affine if alpha is None else alpha],
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
        grid=(tiles * 32, -(-length // rows) * 8, batch),
        threadgroup=(32, 8, 1),
        template=[("X", x.dtype), ("SNAKE", alpha is not None), ("ROWS", rows)],
    )[0]
    return y
