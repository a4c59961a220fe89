"""Multi-head self-attention over [B, T, C]."""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.layers.linear import Linear


class SelfAttention(nn.Module):
    """Softmax attention with `heads` heads; queries, keys and values in one product.

    `qkv` maps C to 3C (queries, keys, values), `out` maps C to C. `bias`, added to the logits, is [B, 1, 1, T] or
    None: minus infinity on padded keys.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def __call__(self, x: mx.array, bias: mx.array | None = None) -> mx.array:
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=size**-0.5, mask=bias)
        return self.out(y.transpose(0, 2, 1, 3).reshape(batch, length, width))
