"""Shapes of the layers' reference values: the fixed ones in layers.npz, and random ones for `make parity`."""

from __future__ import annotations

import random
from typing import NamedTuple


class Conv(NamedTuple):
    """A convolution over x [2, length, inputs]; `transposed` ones read `output_padding`, the others `dilation`."""

    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    length: int = 20
    output_padding: int = 0


class Lstm(NamedTuple):
    """Sequences of `lengths` rows, padded to the longest."""

    inputs: int
    hidden: int
    lengths: tuple[int, ...]


class Adain(NamedTuple):
    """Sequences of `lengths` rows, padded to the longest, around `offset` (large offsets cancel in E[x^2]-E[x]^2)."""

    channels: int
    lengths: tuple[int, ...]
    offset: float = 0.0


class Attention(NamedTuple):
    width: int
    heads: int
    lengths: tuple[int, ...]


class Stft(NamedTuple):
    """`hops` hops of n_fft / 4 samples."""

    n_fft: int
    hops: int


CONV = {
    "dilation1": Conv(8, 6, 3, padding=1),
    "dilation3": Conv(8, 6, 7, padding=9, dilation=3, length=30),
    "dilation5": Conv(4, 4, 11, padding=25, dilation=5, length=61),
    "no_padding": Conv(5, 7, 4, length=11),
    "pointwise": Conv(16, 8, 1, length=9),
    "stride2_even": Conv(1, 1, 3, stride=2, padding=1, length=40),
    "stride2_odd": Conv(1, 1, 3, stride=2, padding=1, length=41),
    "stride6": Conv(22, 16, 12, stride=6, padding=3, length=61),
    "stride_over_kernel": Conv(3, 4, 2, stride=5, length=23),
    "stride_dilation": Conv(3, 4, 3, stride=2, padding=2, dilation=2, length=19, groups=1),
    "depthwise": Conv(8, 8, 3, padding=1, groups=8, length=17),
    "depthwise_dilated": Conv(6, 6, 5, padding=6, dilation=3, groups=6, length=17),
    "groups": Conv(8, 4, 5, padding=2, dilation=2, groups=2, length=30),
}
TRANSPOSED = {
    "rate10": Conv(8, 6, 20, stride=10, padding=5, length=13),
    "rate6": Conv(8, 6, 12, stride=6, padding=3, length=13),
    "depthwise_double": Conv(8, 8, 3, stride=2, padding=1, output_padding=1, groups=8, length=11),
    "output_padding": Conv(6, 6, 5, stride=3, padding=1, output_padding=2, length=7),
    "kernel_below_stride": Conv(3, 5, 2, stride=4, length=6),
    "stride1": Conv(4, 3, 5, stride=1, padding=2, length=9),
    "one_row": Conv(4, 3, 12, stride=6, padding=3, length=1),
}
LSTM = {"full": Lstm(10, 6, (9, 9)), "lengths": Lstm(7, 5, (12, 5, 1)), "one_step": Lstm(4, 3, (1,))}
ADAIN = {"full": Adain(8, (40, 40)), "lengths": Adain(5, (64, 33, 2)), "far_from_zero": Adain(6, (200, 120), 300.0)}
ATTENTION = {"full": Attention(24, 3, (10, 10)), "lengths": Attention(16, 4, (12, 7, 1))}
STFT = {"kokoro": Stft(20, 60), "short": Stft(20, 3), "other": Stft(32, 17)}


def random_conv(rng: random.Random) -> Conv:
    """Any stride, dilation and grouping that gives at least one row."""
    groups = rng.choice([1, 1, 1, 2, 4])
    kernel, dilation = rng.randint(1, 11), rng.choice([1, 1, 3, 5])
    stride = rng.choice([1, 1, 2, 3, 6]) if dilation == 1 else 1
    length = (kernel - 1) * dilation + 1 + rng.randint(0, 60)
    width = groups * rng.randint(1, 8)
    outputs = width if groups == 4 else groups * rng.randint(1, 8)
    return Conv(width, outputs, kernel, stride, rng.randint(0, 30), dilation, width if groups == 4 else groups, length)


def random_transposed(rng: random.Random) -> Conv:
    """Dense or depthwise, with or without output padding."""
    stride, inputs = rng.randint(1, 10), rng.randint(1, 8)
    kernel = stride + rng.randint(0, 12)
    depthwise = rng.random() < 0.3
    return Conv(
        inputs,
        inputs if depthwise else rng.randint(1, 8),
        kernel,
        stride=stride,
        padding=rng.randint(0, (kernel - 1) // 2),
        groups=inputs if depthwise else 1,
        length=rng.randint(1, 20),
        output_padding=rng.randint(0, stride - 1),
    )


def random_lengths(rng: random.Random, most: int) -> tuple[int, ...]:
    """Two or three lengths from 1."""
    return tuple(rng.randint(1, most) for _ in range(rng.randint(2, 3)))
