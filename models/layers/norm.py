"""Normalization over channels (LayerNorm) and over time (instance norm), the latter with style (AdaIN).

AdaIN: Huang and Belongie 2017, arXiv:1703.06868: y = (1 + gamma) * (x - mean_t) / sqrt(var_t + eps) + beta.
Statistics come from the valid rows only. Chan's formula combines those of parts of a sequence, without the cancellation
of E[x^2] - E[x]^2.

A network has tens of AdaINs, each with a Linear that makes gamma and beta from the same style vector. One by one they
are tens of small launches. A `StyleBank` computes all in one product, and each layer takes its slice.

The activation after AdaIN has plain operations, and one CUDA kernel that does both. The plain definition with Snake is
`vocoder.SnakeConv`, which also convolves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mlx import nn

from models.backend import compiled_cache, mx, on_cpu
from models.layers.activation import leaky_relu
from models.layers.conv import PaddingMask
from models.layers.kernels.device import Kernel, build, gpu
from models.native import kernels

EPS = 1e-5
SLOPE = 0.2  # of LeakyReLU


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and sum of squared deviations over `count` rows, each [B, 1, C]; count is a number or [B, 1, 1]."""

    mean: mx.array
    deviation: mx.array
    count: mx.array | int


@compiled_cache
def _squared_deviation():  # type: ignore[no-untyped-def]
    return mx.compile(lambda x, mean: mx.square(x - mean))


@compiled_cache
def _masked_deviation():  # type: ignore[no-untyped-def]
    return mx.compile(lambda x, mean, mask: mx.square((x - mean) * mask))


@lru_cache(maxsize=64)
def _ones(rows: int) -> mx.array:
    ones = mx.ones((1, 1, rows))
    mx.eval(ones)
    return ones


def _row_sum(x: mx.array) -> mx.array:
    """Return the sum over time [B, L, C] -> [B, 1, C]: on the CPU a product with ones, vector code in BLAS."""
    if on_cpu():
        return _ones(x.shape[1]) @ x
    return mx.sum(x, axis=1, keepdims=True)


@compiled_cache
def _affine():  # type: ignore[no-untyped-def]
    """Return a fused function from the parts' moments to AdaIN's scale and shift: many operations on few numbers."""

    def affine(
        means: list[mx.array], deviations: list[mx.array], counts: list[mx.array], gamma: mx.array, beta: mx.array
    ) -> tuple[mx.array, mx.array]:
        parts = [Moments(*part) for part in zip(means, deviations, counts, strict=True)]
        return scale_shift(combine(parts), gamma, beta)

    return mx.compile(affine)


def affine_of(parts: Sequence[Moments], gamma: mx.array, beta: mx.array) -> tuple[mx.array, mx.array]:
    """Return scale and shift [B, 1, C] of AdaIN over the concatenation of `parts`."""
    counts = [p.count if isinstance(p.count, mx.array) else mx.array(float(p.count)) for p in parts]
    scale, shift = _affine()([p.mean for p in parts], [p.deviation for p in parts], counts, gamma, beta)
    return scale, shift


def moments(x: mx.array, mask: mx.array | None = None, count: mx.array | None = None) -> Moments:
    """Return moments of x [B, L, C] over time. `mask` [B, L, 1] is 1 on valid rows; `count` [B, 1, 1] counts them."""
    if mask is None or count is None:
        n = x.shape[1]
        mean = _row_sum(x) * (1.0 / n)
        return Moments(mean, _row_sum(_squared_deviation()(x, mean)), n)
    mean = _row_sum(x * mask) / mx.maximum(count, 1)
    return Moments(mean, _row_sum(_masked_deviation()(x, mean, mask)), count)


def combine(parts: Sequence[Moments]) -> Moments:
    """Return the moments of the concatenation of `parts` along time (Chan, Golub and LeVeque 1979)."""
    if len(parts) == 1:
        return parts[0]
    total = sum((p.count for p in parts[1:]), parts[0].count)
    weighted = [p.mean * (p.count / total) for p in parts]
    mean = sum(weighted[1:], weighted[0])
    spread = [p.deviation + p.count * mx.square(p.mean - mean) for p in parts]
    return Moments(mean, sum(spread[1:], spread[0]), total)


def scale_shift(m: Moments, gamma: mx.array, beta: mx.array) -> tuple[mx.array, mx.array]:
    """Return AdaIN's affine form, x * scale + shift, each [B, 1, C]; gamma and beta are [B, 1, C]."""
    scale = (1 + gamma) * mx.rsqrt(m.deviation / m.count + EPS)
    return scale, beta - m.mean * scale


def layer_norm(x: mx.array, weight: mx.array | None, bias: mx.array | None, eps: float = EPS) -> mx.array:
    """Return LayerNorm over the last axis."""
    return mx.fast.layer_norm(x, weight, bias, eps)


class StyleAffine(nn.Module):
    """One layer's Linear from style [B, S] to gamma and beta; `weight` is [2C, S], `bias` [2C]."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.weight = mx.zeros((2 * channels, style_dim))
        self.bias = mx.zeros((2 * channels,))
        self.start = 0

    def __call__(self, styled: mx.array) -> mx.array:
        """Return this layer's slice [B, 2C] (gamma, then beta) of a bank's result."""
        return styled[:, self.start : self.start + self.bias.shape[0]]


class AdaIN(nn.Module):
    """Parameters of one adaptive instance norm, by the reference's name: `fc` projects the style."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.fc = StyleAffine(style_dim, channels)

    def __call__(self, styled: mx.array) -> mx.array:
        """Return gamma and beta, [B, 2C], from the result of the bank that holds `fc`."""
        return self.fc(styled)


class StyleBank:
    """Product of all StyleAffines of a part of the network."""

    def __init__(self, layers: Sequence[StyleAffine]) -> None:
        self._layers = layers
        start = 0
        for layer in layers:
            layer.start = start
            start += layer.bias.shape[0]
        weight = mx.concatenate([layer.weight for layer in layers]).T
        self._bias = mx.concatenate([layer.bias for layer in layers])
        self._packed = kernels.pack_conv(weight[None])
        self._weight = weight if self._packed is None else self._packed.weights
        mx.eval(self._weight, self._bias)

    @staticmethod
    def of(part: nn.Module) -> StyleBank:
        """Return the bank of every StyleAffine within `part`, from its present weights."""
        return StyleBank([module for _, module in part.named_modules() if isinstance(module, StyleAffine)])

    def __call__(self, style: mx.array) -> mx.array:
        """Return every layer's gamma and beta, [B, sum of 2C], for style [B, S]."""
        if self._packed is not None:
            return kernels.linear(style, self._packed, self._bias)
        return mx.addmm(self._bias, style, self._weight)


def adain_leaky(x: mx.array, affine: mx.array, valid: PaddingMask) -> mx.array:
    """Return LeakyReLU of AdaIN of x [B, L, C] by affine [B, 2C] (gamma, then beta); zero on padding."""
    if gpu() == "cuda":
        return adain_cuda(x, affine, None, valid.number(x))
    return adain_leaky_reference(x, affine, valid)


@compiled_cache
def _affine_leaky():  # type: ignore[no-untyped-def]
    return mx.compile(lambda x, scale, shift: leaky_relu(x * scale + shift, SLOPE))


def adain_leaky_reference(x: mx.array, affine: mx.array, valid: PaddingMask) -> mx.array:
    """Compute `adain_leaky` by plain operations."""
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
    """Return AdaIN of x [B, L, C] by affine [B, 2C] over count [B] rows, then Snake (alpha [C]) or LeakyReLU (None)."""
    batch, length, channels = x.shape
    tiles = -(-channels // 32)
    splits = max(1, min(64, length // 128))
    reduce = build(Kernel("nightingale_moments", ("x", "count"), ("partial",), _MOMENTS), "cuda")
    partial = reduce(
        inputs=[x, count],
        output_shapes=[(batch, splits, 2, channels)],
        output_dtypes=[mx.float32],
        grid=(tiles * 32, splits * 8, batch),
        threadgroup=(32, 8, 1),
        template=[("X", x.dtype)],
    )[0]
    rows = 64
    inputs = ("x", "count", "partial", "affine", "alpha")
    activate = build(Kernel("nightingale_adain", inputs, ("y",), _APPLY), "cuda")
    y: mx.array = activate(
        inputs=[x, count, partial, affine, affine if alpha is None else alpha],
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
        grid=(tiles * 32, -(-length // rows) * 8, batch),
        threadgroup=(32, 8, 1),
        template=[("X", x.dtype), ("SNAKE", alpha is not None), ("ROWS", rows)],
    )[0]
    return y
