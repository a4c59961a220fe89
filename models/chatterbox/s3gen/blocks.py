"""Blocks of the flow's estimator: causal convolutions, resnet blocks and transformer blocks.

Each layer takes a sequence in pieces along time, one a stream. Reference: chatterbox 0.1.7,
models/s3gen/matcha/{decoder,transformer}.py and models/s3gen/decoder.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from mlx import nn

from models.backend import mx
from models.chatterbox.config import FlowConfig
from models.layers.activation import gelu, mish
from models.layers.attention import attend
from models.layers.compiled import compiled_cache
from models.layers.conv import Conv1d
from models.layers.norm import layer_norm

KERNEL = 3

Pieces = list[mx.array]


@compiled_cache
def sum3():  # type: ignore[no-untyped-def]
    return mx.compile(lambda a, b, c: a + b + c)


def each(streams: Sequence[mx.Stream], run: Callable[..., Any], *pieces: Sequence[Any]) -> list[Any]:
    """run(piece, ...) for each piece, on its lane."""
    found = []
    for stream, arguments in zip(streams, zip(*pieces, strict=True), strict=True):
        with mx.stream(stream):
            found.append(run(*arguments))
    return found


def cut(x: mx.array, count: int) -> Pieces:
    """x [B, F, C] in `count` pieces along F."""
    edges = [x.shape[1] * k // count for k in range(count + 1)]
    return [x[:, a:b] for a, b in pairwise(edges)] if count > 1 else [x]


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward layer with GELU, each behind a LayerNorm and added to its input.

    Weights are [O, I]; queries, keys and values (one product, no bias) are wider than the block.
    """

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        width, inner = config.width, config.heads * config.head_size
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = mx.zeros((3 * inner, width))
        self.out = mx.zeros((width, inner))
        self.out_bias = mx.zeros((width,))
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = mx.zeros((4 * width, width))
        self.fc1_bias = mx.zeros((4 * width,))
        self.fc2 = mx.zeros((width, 4 * width))
        self.fc2_bias = mx.zeros((width,))

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
        y = layer_norm(x, self.norm1.weight, self.norm1.bias) @ self.qkv.T
        q, k, v = y.reshape(batch, length, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        return q, k, v

    def _rest(self, x: mx.array, q: mx.array, k: mx.array, v: mx.array, bias: mx.array | None) -> mx.array:
        batch, _, length, size = q.shape
        y = attend(q, k, v, size**-0.5, bias).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        x = sum3()(x, y @ self.out.T, self.out_bias)
        y = gelu(layer_norm(x, self.norm2.weight, self.norm2.bias) @ self.fc1.T, self.fc1_bias)
        result: mx.array = sum3()(x, y @ self.fc2.T, self.fc2_bias)
        return result


def _with_context(xs: Pieces, streams: Sequence[mx.Stream]) -> Pieces:
    """Each piece with the two rows before it, which are zeros at the start."""
    before = [None, *xs[:-1]]

    def join(x: mx.array, last: mx.array | None) -> mx.array:
        if last is None:
            return mx.pad(x, [(0, 0), (KERNEL - 1, 0), (0, 0)])
        return mx.concatenate([last[:, 1 - KERNEL :], x], axis=1)

    return each(streams, join, xs, before)


class CausalConv(nn.Module):
    """Convolution of three taps that sees no later row; `bias` [O] is the caller's to add where it costs nothing."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = Conv1d(inputs, outputs, KERNEL, bias=False)
        self.bias = mx.zeros((outputs,))

    def __call__(self, xs: Pieces, streams: Sequence[mx.Stream], starts: Sequence[mx.array] | None = None) -> Pieces:
        """Pieces of [B, F, I] -> [B, F, O], onto `starts` (pieces of [B, F, O], the bias in them) or the bias."""
        starts = [self.bias] * len(xs) if starts is None else starts
        padded = _with_context(xs, streams)
        return each(streams, lambda x, start: self.conv.valid(x, 0, 0, start), padded, starts)


class ResnetBlock(nn.Module):
    """Twice convolution, LayerNorm and Mish, the time's vector between, and a linear map of the input added."""

    def __init__(self, inputs: int, config: FlowConfig) -> None:
        super().__init__()
        self.conv1 = CausalConv(inputs, config.width)
        self.norm1 = nn.LayerNorm(config.width)
        self.conv2 = CausalConv(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width)
        self.res = mx.zeros((config.width, inputs))
        self.res_bias = mx.zeros((config.width,))

    def __call__(
        self,
        xs: Pieces,
        shift: mx.array,
        streams: Sequence[mx.Stream],
        starts: Sequence[tuple[mx.array, mx.array]] | None = None,
    ) -> Pieces:
        """Pieces of [B, F, I] -> [B, F, C]. `shift` [C] is the time's; `starts` replaces conv1's and res's biases."""
        ends = [self.res_bias] * len(xs) if starts is None else [end for _, end in starts]

        def finish(y: mx.array, norm: nn.LayerNorm) -> mx.array:
            return mish(layer_norm(y, norm.weight, norm.bias))

        ys = self.conv1(xs, streams, None if starts is None else [start for start, _ in starts])
        ys = each(streams, lambda y: finish(y, self.norm1) + shift, ys)
        ys = self.conv2(ys, streams)
        return each(streams, lambda y, x, end: sum3()(finish(y, self.norm2), x @ self.res.T, end), ys, xs, ends)
