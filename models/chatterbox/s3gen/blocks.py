"""Blocks of the flow's estimator: causal convolutions, resnet blocks and transformer blocks.

Each takes a sequence in pieces along time, each piece on its stream. Reference: chatterbox 0.1.7,
models/s3gen/decoder.py and models/s3gen/matcha/{decoder,transformer}.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from mlx import nn

from models.backend import compiled, mx
from models.chatterbox.config import FlowConfig
from models.layers.activation import gelu, mish
from models.layers.attention import attend
from models.layers.conv import Conv1d
from models.layers.norm import layer_norm

KERNEL = 3  # taps of every convolution

Pieces = list[mx.array]


@compiled
def _sum3(a: mx.array, b: mx.array, c: mx.array) -> mx.array:
    return a + b + c


def each(streams: Sequence[mx.Stream], run: Callable[..., Any], *pieces: Sequence[Any]) -> list[Any]:
    """Return run(piece, ...) for each piece, on its stream."""
    found = []
    for stream, arguments in zip(streams, zip(*pieces, strict=True), strict=True):
        with mx.stream(stream):
            found.append(run(*arguments))
    return found


def cut(x: mx.array, count: int) -> Pieces:
    """Cut x [B, F, C] into `count` pieces along F."""
    edges = [x.shape[1] * k // count for k in range(count + 1)]
    return [x[:, a:b] for a, b in pairwise(edges)] if count > 1 else [x]


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward layer with GELU, each behind a LayerNorm and added to its input.

    One product, without a bias, makes queries, keys and values; these are wider than the block.
    """

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        width, inner = config.width, config.heads * config.head_size
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * inner, bias=False)
        self.to_out = nn.Linear(inner, width)
        self.norm3 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def __call__(self, xs: Pieces, bias: mx.array | None, streams: Sequence[mx.Stream]) -> Pieces:
        """Pieces of [B, F, C], each on its stream -> the same; `bias` [B, 1, 1, F] is added to the logits."""
        made = each(streams, self._project, xs)
        if len(xs) == 1:
            keys, values = [made[0][1]], [made[0][2]]
        else:
            keys = each(streams, lambda _: mx.concatenate([k for _, k, _ in made], axis=2), xs)
            values = each(streams, lambda _: mx.concatenate([v for _, _, v in made], axis=2), xs)
        return each(streams, lambda x, m, k, v: self._rest(x, m[0], k, v, bias), xs, made, keys, values)

    def _project(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        batch, length, _ = x.shape
        y = layer_norm(x, self.norm1.weight, self.norm1.bias) @ self.to_qkv.weight.T
        q, k, v = y.reshape(batch, length, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        return q, k, v

    def _rest(self, x: mx.array, q: mx.array, k: mx.array, v: mx.array, bias: mx.array | None) -> mx.array:
        batch, _, length, size = q.shape
        y = attend(q, k, v, size**-0.5, bias).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        x = _sum3(x, y @ self.to_out.weight.T, self.to_out.bias)
        y = gelu(layer_norm(x, self.norm3.weight, self.norm3.bias) @ self.fc1.weight.T, self.fc1.bias)
        result: mx.array = _sum3(x, y @ self.fc2.weight.T, self.fc2.bias)
        return result


def _with_context(xs: Pieces, streams: Sequence[mx.Stream]) -> Pieces:
    """Return each piece with the two rows before it, which are zeros at the start."""
    before = [None, *xs[:-1]]

    def join(x: mx.array, last: mx.array | None) -> mx.array:
        if last is None:
            return mx.pad(x, [(0, 0), (KERNEL - 1, 0), (0, 0)])
        return mx.concatenate([last[:, 1 - KERNEL :], x], axis=1)

    return each(streams, join, xs, before)


class CausalConv(Conv1d):
    """Convolution of three taps that sees no later row."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, KERNEL)

    def pieces(self, xs: Pieces, streams: Sequence[mx.Stream], starts: Sequence[mx.array] | None = None) -> Pieces:
        """Pieces of [B, F, I] -> [B, F, O], added to the bias, or to `starts`: pieces of [B, F, O] that hold it."""
        starts = [self.bias] * len(xs) if starts is None else starts
        padded = _with_context(xs, streams)
        return each(streams, lambda x, start: self.valid(x, 0, 0, start), padded, starts)


class CausalBlock(nn.Module):
    """Causal convolution, LayerNorm and Mish."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = CausalConv(inputs, outputs)
        self.norm = nn.LayerNorm(outputs)

    def __call__(self, xs: Pieces, streams: Sequence[mx.Stream], starts: Sequence[mx.array] | None = None) -> Pieces:
        """As CausalConv.pieces."""
        ys = self.conv.pieces(xs, streams, starts)
        return each(streams, lambda y: mish(layer_norm(y, self.norm.weight, self.norm.bias)), ys)


class ResnetBlock(nn.Module):
    """Two causal blocks with the time's vector added between them, and a linear map of the input added at the end."""

    def __init__(self, inputs: int, config: FlowConfig) -> None:
        super().__init__()
        self.block1 = CausalBlock(inputs, config.width)
        self.block2 = CausalBlock(config.width, config.width)
        self.res_conv = nn.Linear(inputs, config.width)

    def __call__(
        self,
        xs: Pieces,
        shift: mx.array,
        streams: Sequence[mx.Stream],
        starts: Sequence[tuple[mx.array, mx.array]] | None = None,
    ) -> Pieces:
        """Pieces of [B, F, I] -> [B, F, C]. `shift` [C] is the time's; `starts` replace two biases."""
        ends = [self.res_conv.bias] * len(xs) if starts is None else [end for _, end in starts]
        ys = self.block1(xs, streams, None if starts is None else [start for start, _ in starts])
        ys = self.block2(each(streams, lambda y: y + shift, ys), streams)
        return each(streams, lambda y, x, end: _sum3(y, x @ self.res_conv.weight.T, end), ys, xs, ends)
