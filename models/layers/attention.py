"""Multi-head attention."""

from __future__ import annotations

from mlx import nn

from models.backend import mx, on_cpu
from models.layers.activation import exp_below
from models.layers.linear import Linear


def attend(q: mx.array, k: mx.array, v: mx.array, scale: float, bias: mx.array | None = None) -> mx.array:
    """Return softmax attention of q [B, H, T, C] to k and v [B, H, S, C]: [B, H, T, C]; `bias` adds to the logits.

    On the CPU MLX's softmax computes one exponential at a time and takes longer than the products. Vector code replaces
    it there (relative error 1e-5); a key whose bias is minus infinity then keeps a weight of up to 4e-11.
    """
    if not on_cpu():
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=bias)
    logits = (q * scale) @ k.swapaxes(-1, -2)
    if bias is not None:
        logits = logits + bias
    weights = exp_below(logits, mx.max(logits, axis=-1, keepdims=True))
    return (weights @ v) / (weights @ mx.ones((k.shape[2], 1)))


class SelfAttention(nn.Module):
    """Softmax attention with `heads` heads over x [B, T, C]; parameters by transformers' names.

    `lower()`, once after loading, joins queries, keys and values into one product.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.dense = Linear(width, width)

    def lower(self) -> None:
        """Replace `query`, `key` and `value` by one layer `qkv`, and lower it and `dense` for the device."""
        if "qkv" not in self:
            parts = [self.pop(name) for name in ("query", "key", "value")]
            self.qkv = Linear(parts[0].weight.shape[1], 3 * parts[0].weight.shape[0])
            self.qkv.weight = mx.concatenate([part.weight for part in parts])
            self.qkv.bias = mx.concatenate([part.bias for part in parts])
        self.qkv.lower()
        self.dense.lower()

    def __call__(self, x: mx.array, bias: mx.array | None = None) -> mx.array:
        """`bias`, added to the logits, is [B, 1, 1, T] or None: minus infinity on padded keys."""
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=size**-0.5, mask=bias)
        return self.dense(y.transpose(0, 2, 1, 3).reshape(batch, length, width))
