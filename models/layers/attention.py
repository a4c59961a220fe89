"""Multi-head attention, and the positions that its inputs carry.

Sinusoidal positions: Vaswani et al. 2017, arXiv:1706.03762, in tensor2tensor's order (sines, then cosines).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from models.backend import mx, on_cpu
from models.layers.activation import exp_below


def split_heads(x: mx.array, count: int, heads: int) -> mx.array:
    """[B, T, count * C] -> [B, count * heads, T, C / heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, count * heads, width // (count * heads)).transpose(0, 2, 1, 3)


def join_heads(x: mx.array) -> mx.array:
    """[B, heads, T, size] -> [B, T, heads * size]."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def attend(q: mx.array, k: mx.array, v: mx.array, scale: float, bias: mx.array | None = None) -> mx.array:
    """Return softmax attention of q [B, H, T, C] to k and v [B, H, S, C]: [B, H, T, C]; `bias` adds to the logits.

    On the CPU the sum that the softmax divides by is a product, and the division comes after that with the values.
    """
    if not on_cpu():
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=bias)
    logits = (q * scale) @ k.swapaxes(-1, -2)
    if bias is not None:
        logits = logits + bias
    weights = exp_below(logits, mx.max(logits, axis=-1, keepdims=True))
    return (weights @ v) / (weights @ mx.ones((k.shape[2], 1)))


def sinusoids(count: int, width: int, first: int = 0) -> npt.NDArray[np.float32]:
    """Return sinusoids [count, width] of the positions first, first + 1, ...: frequencies 10000^(-i / (width / 2 - 1)).

    All steps are in float32, as in the checkpoints' training: at position 1000 the phase's rounding is 6e-5.
    """
    return sinusoids_at(np.arange(first, first + count, dtype=np.float32), width)


def sinusoids_at(positions: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Return `sinusoids` of any positions [count], whole or not."""
    half = width // 2
    frequency = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10_000) / max(half - 1, 1)))
    phase = positions.astype(np.float32)[:, None] * frequency
    table = np.concatenate([np.sin(phase), np.cos(phase)], axis=1)
    return np.pad(table, ((0, 0), (0, width % 2)))
