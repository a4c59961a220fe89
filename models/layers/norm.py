"""Normalization over channels (LayerNorm) and over time (instance norm), the latter with style (AdaIN).

AdaIN: Huang and Belongie 2017, arXiv:1703.06868: y = (1 + gamma) * (x - mean_t) / sqrt(var_t + eps) + beta.
Statistics come from the valid rows only. Chan's formula combines those of parts of a sequence, without the cancellation
of E[x^2] - E[x]^2.

A network has tens of AdaINs, each with a Linear that makes gamma and beta from the same style vector. One by one they
are tens of small launches. A `StyleBank` computes all in one product, and each layer takes its slice.

`models.layers.adain` has AdaIN with the activation behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mlx import nn

from models.backend import compiled, constant, mx, on_cpu
from models.native import kernels

EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and sum of squared deviations over `count` rows, each [B, 1, C]; count is a number or [B, 1, 1]."""

    mean: mx.array
    deviation: mx.array
    count: mx.array | int


@compiled
def _squared_deviation(x: mx.array, mean: mx.array) -> mx.array:
    return mx.square(x - mean)


@compiled
def _masked_deviation(x: mx.array, mean: mx.array, mask: mx.array) -> mx.array:
    return mx.square((x - mean) * mask)


@lru_cache(maxsize=64)
def _ones(rows: int) -> mx.array:
    return constant(mx.ones((1, 1, rows)))


def _row_sum(x: mx.array) -> mx.array:
    """Return the sum over time [B, L, C] -> [B, 1, C]: on the CPU a product with ones, vector code in BLAS."""
    if on_cpu():
        return _ones(x.shape[1]) @ x
    return mx.sum(x, axis=1, keepdims=True)


@compiled
def _affine(
    means: list[mx.array], deviations: list[mx.array], counts: list[mx.array], gamma: mx.array, beta: mx.array
) -> tuple[mx.array, mx.array]:
    """Return AdaIN's scale and shift from the parts' moments: many operations on few numbers."""
    parts = [Moments(*part) for part in zip(means, deviations, counts, strict=True)]
    return scale_shift(combine(parts), gamma, beta)


def affine_of(parts: Sequence[Moments], gamma: mx.array, beta: mx.array) -> tuple[mx.array, mx.array]:
    """Return scale and shift [B, 1, C] of AdaIN over the concatenation of `parts`."""
    counts = [p.count if isinstance(p.count, mx.array) else mx.array(float(p.count)) for p in parts]
    return _affine([p.mean for p in parts], [p.deviation for p in parts], counts, gamma, beta)


def moments(x: mx.array, mask: mx.array | None = None, count: mx.array | None = None) -> Moments:
    """Return moments of x [B, L, C] over time. `mask` [B, L, 1] is 1 on valid rows; `count` [B, 1, 1] counts them."""
    if mask is None or count is None:
        n = x.shape[1]
        mean = _row_sum(x) * (1.0 / n)
        return Moments(mean, _row_sum(_squared_deviation(x, mean)), n)
    count = count.astype(mx.float32)
    mean = _row_sum(x * mask) / mx.maximum(count, 1)
    return Moments(mean, _row_sum(_masked_deviation(x, mean, mask)), count)


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

    def widen(self, channels: int) -> None:
        """Add channels of gamma and beta zero, up to so many."""
        more = channels - self.bias.size // 2
        self.weight = mx.pad(self.weight.reshape(2, -1, self.weight.shape[1]), [(0, 0), (0, more), (0, 0)])
        self.weight = self.weight.reshape(2 * channels, -1)
        self.bias = mx.pad(self.bias.reshape(2, -1), [(0, 0), (0, more)]).reshape(-1)

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

    @property
    def width(self) -> int:
        """Return the size of a result."""
        return self._bias.size

    @staticmethod
    def of(*parts: nn.Module) -> StyleBank:
        """Return the bank of every StyleAffine within `parts`, from their present weights."""
        found = [module for part in parts for _, module in part.named_modules()]
        return StyleBank([module for module in found if isinstance(module, StyleAffine)])

    def __call__(self, style: mx.array) -> mx.array:
        """Return every layer's gamma and beta, [B, sum of 2C], for style [B, S]."""
        if self._packed is not None:
            return kernels.linear(style, self._packed, self._bias)
        return mx.addmm(self._bias, style, self._weight)
