"""Style projections: every AdaIN's gamma and beta from one product per utterance.

A network has tens of AdaINs, each with a Linear of the same style vector. One by one they are tens of small launches. A
bank computes all in one product, and each layer takes its slice.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlx import nn

from models.backend import mx


class StyleAffine(nn.Module):
    """One layer's Linear from style [B, S] to gamma and beta; `weight` is [2C, S], `bias` [2C]."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.weight = mx.zeros((2 * channels, style_dim))
        self.bias = mx.zeros((2 * channels,))
        self._start = 0

    def __call__(self, styled: mx.array) -> mx.array:
        """Return this layer's slice [B, 2C] (gamma, then beta) of a bank's result."""
        return styled[:, self._start : self._start + self.bias.shape[0]]


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
            layer._start = start
            start += layer.bias.shape[0]
        self._weight = mx.concatenate([layer.weight for layer in layers]).T
        self._bias = mx.concatenate([layer.bias for layer in layers])
        mx.eval(self._weight, self._bias)

    @staticmethod
    def of(part: nn.Module) -> StyleBank:
        """Return the bank of every StyleAffine within `part`, from its present weights."""
        return StyleBank([module for _, module in part.named_modules() if isinstance(module, StyleAffine)])

    def __call__(self, style: mx.array) -> mx.array:
        """Return every layer's gamma and beta, [B, sum of 2C], for style [B, S]."""
        return mx.addmm(self._bias, style, self._weight)
