"""CUDA kernels for what launches bound on an NVIDIA GPU: recurrence, AdaIN with its activation, harmonic source.

Each has its plain-MLX definition beside its caller (lstm.py, norm.py, source.py), which is what other devices run and
what the tests compare with. Kernels are built by MLX at run time, once per template.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from models.backend import mx, on_cpu

logger = logging.getLogger(__name__)

MOST_APART = 0.1  # relative, of bfloat16: its own error is 0.02 at most, a mistake's about 1
UNITS = 16  # hidden units a block of the recurrence owns: 64 rows of weights, held in registers


@cache
def available() -> bool:
    """True where these kernels run: MLX on an NVIDIA GPU."""
    return not on_cpu() and bool(mx.cuda.is_available())


def agree(name: str, differences: Callable[[], Sequence[float]]) -> bool:
    """Whether kernels build here and are as close to plain operations as bfloat16 is; where not, a warning names them.

    `differences` runs them and gives relative differences. Raises what it raises but for RuntimeError, MLX's own.
    """
    try:
        apart = differences()
    except RuntimeError as error:
        logger.warning("%s cannot be built here, plain operations are used: %s", name, error)
        return False
    if all(each <= MOST_APART for each in apart):  # not of a NaN
        return True
    logger.warning("%s differ from plain operations by %s here, these are used", name, apart)
    return False


_LSTM = r"""
    // One block owns UNITS hidden units of one direction of one sequence: 4 * UNITS rows of weights, four threads a
    // row. Blocks of a direction exchange h through L2 and meet at a counter once a step; all are resident at once.
    constexpr int PER = H / 4;
    constexpr int BLOCKS = H / UNITS;
    const int b = blockIdx.z, dir = blockIdx.y, first = blockIdx.x * UNITS;
    const int T = xp_shape[1];
    const int slice = threadIdx.x & 3, row = threadIdx.x >> 2;
    const int gate = row / UNITS, unit = first + row % UNITS;
    const int valid = count[b];
    float w[PER];
    #pragma unroll
    for (int j = 0; j < PER; ++j) w[j] = wh[(dir * H + j * 4 + slice) * 4 * H + gate * H + unit];
    __shared__ float h[H];
    __shared__ float g[4 * UNITS];
    float* state = exchange + (b * 2 + dir) * 2 * H;
    int* meet = (int*)counter + (b * 2 + dir) * 32;
    float c = 0.0f;
    float x = xp[(b * T + (dir ? T - 1 : 0)) * 8 * H + dir * 4 * H + gate * H + unit];
    for (int t = 0; t < T; ++t) {
      for (int k = threadIdx.x; k < H; k += blockDim.x) h[k] = t ? __ldcg(state + (t & 1) * H + k) : 0.0f;
      __syncthreads();
      float sum = 0.0f;
      #pragma unroll
      for (int j = 0; j < PER; ++j) sum = fmaf(w[j], h[j * 4 + slice], sum);
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (slice == 0) g[row] = sum + x;
      const int at = dir ? T - 1 - t : t;
      if (t + 1 < T) {
        const int next = dir ? at - 1 : at + 1;
        x = xp[(b * T + next) * 8 * H + dir * 4 * H + gate * H + unit];
      }
      __syncthreads();
      if (threadIdx.x < UNITS) {
        const int u = threadIdx.x;
        const float i = 1.0f / (1.0f + expf(-g[u])), f = 1.0f / (1.0f + expf(-g[UNITS + u]));
        const float o = 1.0f / (1.0f + expf(-g[3 * UNITS + u]));
        c = f * c + i * tanhf(g[2 * UNITS + u]);
        float v = o * tanhf(c);
        if (at >= valid) { c = 0.0f; v = 0.0f; }
        y[(b * T + at) * 2 * H + dir * H + first + u] = v;
        __stcg(state + ((t + 1) & 1) * H + first + u, v);
        __threadfence();
      }
      __syncthreads();
      if (BLOCKS > 1 && threadIdx.x == 0) {
        atomicAdd(meet, 1);
        while (*((volatile int*)meet) < BLOCKS * (t + 1)) {}
        __threadfence();
      }
      __syncthreads();
    }
"""

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


@cache
def _kernel(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], source: str) -> Any:
    return mx.fast.cuda_kernel(name=name, input_names=list(inputs), output_names=list(outputs), source=source)


def lstm(xp: mx.array, wh: mx.array, count: mx.array) -> mx.array:
    """Both directions of an LSTM from projected inputs xp [B, T, 8H], wh [2, H, 4H], count [B] -> [B, T, 2H]."""
    batch, length, width = xp.shape
    hidden = width // 8
    kernel = _kernel("nightingale_lstm", ("xp", "wh", "count"), ("y", "exchange", "counter"), _LSTM)
    result = kernel(
        inputs=[xp, wh, count],
        # Counters a cache line apart; MLX keeps arrays of 8 bytes in host memory, where an atomic takes microseconds.
        output_shapes=[(batch, length, 2 * hidden), (batch, 2, 2, hidden), (batch, 2, 32)],
        output_dtypes=[mx.float32, mx.float32, mx.int32],
        grid=(hidden // UNITS * 256, 2, batch),
        threadgroup=(256, 1, 1),
        template=[("H", hidden), ("UNITS", UNITS)],
        init_value=0,
    )
    y: mx.array = result[0]
    return y


def adain(x: mx.array, affine: mx.array, alpha: mx.array | None, count: mx.array) -> mx.array:
    """AdaIN of x [B, L, C] by affine [B, 2C] over count [B] rows, then Snake (alpha [C]) or LeakyReLU 0.2 (None)."""
    batch, length, channels = x.shape
    tiles = -(-channels // 32)
    splits = max(1, min(64, length // 128))
    moments = _kernel("nightingale_moments", ("x", "count"), ("partial",), _MOMENTS)
    partial = moments(
        inputs=[x, count],
        output_shapes=[(batch, splits, 2, channels)],
        output_dtypes=[mx.float32],
        grid=(tiles * 32, splits * 8, batch),
        threadgroup=(32, 8, 1),
        template=[("X", x.dtype)],
    )[0]
    rows = 64
    activate = _kernel("nightingale_adain", ("x", "count", "partial", "affine", "alpha"), ("y",), _APPLY)
    y: mx.array = activate(
        inputs=[x, count, partial, affine, affine if alpha is None else alpha],
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
        grid=(tiles * 32, -(-length // rows) * 8, batch),
        threadgroup=(32, 8, 1),
        template=[("X", x.dtype), ("SNAKE", alpha is not None), ("ROWS", rows)],
    )[0]
    return y


def harmonics(f0: mx.array, noise: mx.array, steps: mx.array, weight: mx.array, bias: mx.array, size: int) -> mx.array:
    """Excitation [B, T * size] from f0 [B, T], merged noise [B, T * size], steps [B] and the merge's weight [1, 9]."""
    batch, length = f0.shape
    phase = _kernel("nightingale_phase", ("f0",), ("phase",), _PHASE)(
        inputs=[f0],
        output_shapes=[(batch, length, 9)],
        output_dtypes=[mx.float32],
        grid=(32 * batch, 1, 1),
        threadgroup=(32, 1, 1),
        template=[("SIZE", size)],
    )[0]
    inputs = ("f0", "noise", "valid", "phase", "weight", "bias")
    y: mx.array = _kernel("nightingale_wave", inputs, ("y",), _WAVE)(
        inputs=[f0, noise, steps, phase, weight, bias],
        output_shapes=[(batch, length * size)],
        output_dtypes=[mx.float32],
        grid=(-(-length * size // 256) * 256, batch, 1),
        threadgroup=(256, 1, 1),
        template=[("SIZE", size)],
    )[0]
    return y
