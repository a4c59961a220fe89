"""Snake and the convolution that follows it, on parts of the time axis.

Snake: Ziyin et al. 2020, arXiv:2006.08195. The residual blocks of HiFi-GAN's successors are chains of such pairs, and
nine tenths of a vocoder's arithmetic. On the CPU a block is computed in parts of the time axis, side by side on the
cores. A part has a halo: the rows beyond its own that its convolutions need. Each convolution uses some of them up. A
GPU computes one part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from models.backend import cpu_streams, mx, on_cpu
from models.layers import fast_fir
from models.layers.activation import leaky_relu, snake
from models.layers.compiled import compiled_cache
from models.layers.conv import Conv1d

LEAST_ROWS = 128  # shorter parts cost more in overlap than they gain

Terms = tuple[mx.array, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows [low, high) of a sequence of `length` rows, computed on `stream`; [start, stop) are the part's own.

    `rows` is [B, high - low, C]. The rows between `low` and `start`, and between `stop` and `high`, are the halo.
    """

    rows: mx.array
    low: int
    high: int
    start: int
    stop: int
    length: int
    stream: mx.Stream

    def own(self) -> mx.array:
        """Return the part's own rows, [B, stop - start, C]."""
        return self.rows[:, self.start - self.low : self.stop - self.low]


def split(x: mx.array, halo: int, count: int | None = None) -> list[Part]:
    """Cut x [B, L, C] into `count` parts (default: one a CPU stream), but none shorter than LEAST_ROWS."""
    length, streams = x.shape[1], cpu_streams()
    count = min(len(streams) if count is None else count, max(1, length // LEAST_ROWS))
    edges = [length * k // count for k in range(count + 1)]
    parts = []
    for k, (start, stop) in enumerate(pairwise(edges)):
        low, high = max(0, start - halo), min(length, stop + halo)
        parts.append(Part(x[:, low:high], low, high, start, stop, length, streams[k * len(streams) // count]))
    return parts


def join(parts: Sequence[Part]) -> mx.array:
    """Return the sequence [B, L, C] that `parts` make."""
    return parts[0].rows if len(parts) == 1 else mx.concatenate([part.own() for part in parts], axis=1)


def merge(blocks: Sequence[Sequence[Part]], bias: mx.array, slope: float) -> mx.array:
    """Return LeakyReLU of the mean of several blocks' results plus `bias` [C]: [B, L, C].

    Each block gives its result in the same parts; each part is merged on its own stream.
    """
    merged = []
    for same in zip(*blocks, strict=True):
        with mx.stream(same[0].stream):
            merged.append(_mean_leaky(slope)([part.own() for part in same], bias))
    return merged[0] if len(merged) == 1 else mx.concatenate(merged, axis=1)


class SnakeConv:
    """Snake (y + sin^2(alpha y) / alpha, for y = x * scale + shift), then a convolution without its bias.

    It works on weights that its owner holds as parameters: `conv`, dense and of stride 1, and `alpha` [C]. Make it once
    they are loaded; it lowers `conv`. `floor` is added to alpha before the division.
    """

    def __init__(self, conv: Conv1d, alpha: mx.array, floor: float = 0.0) -> None:
        conv.lower()
        self.conv = conv
        self._rate, self._inverse = alpha * (1 / math.pi), 1 / (alpha + floor)
        fast = on_cpu() and fast_fir.pays(conv.kernel, conv.dilation, alpha.size)
        self._summed = fast_fir.summed_taps(conv.weight) if fast else None
        mx.eval(self._rate, self._inverse, [] if self._summed is None else self._summed)

    def terms(self, shift: mx.array, scale: mx.array | None = None) -> Terms:
        """Return what the activation needs for inputs x * scale + shift; both broadcast to [B, L, C]."""
        if scale is None:
            return (shift, self._rate, shift * self._rate, self._inverse)
        return (scale, shift, *_in_cycles()(scale, shift, self._rate), self._inverse)

    def __call__(self, part: Part, terms: Terms, mask: mx.array | None = None, onto: Part | None = None) -> Part:
        """Activate and convolve a part, and add the rows of `onto` (the residual) where given.

        `mask` [B, L, 1] of the whole sequence is 1 on valid rows; what is activated is zero on others. The result lacks
        the rows of the halo that the convolution used up. Run it on the part's stream.
        """
        # Rows beyond the sequence are zero; rows of a neighboring part are at hand.
        reach = self.conv.padding
        left, right = (reach if part.low == 0 else 0), (reach if part.high == part.length else 0)
        low, high = part.low + reach - left, part.high - reach + right
        start = None if onto is None else onto.rows[:, low - onto.low : high - onto.low]
        masked = None if mask is None else mask[:, part.low : part.high]
        rows = self._convolve(part.rows, terms, masked, (left, right), start)
        return Part(rows, low, high, part.start, part.stop, part.length, part.stream)

    def _convolve(
        self, x: mx.array, terms: Terms, mask: mx.array | None, zeros: tuple[int, int], start: mx.array | None
    ) -> mx.array:
        """Activate and convolve rows x [B, L, C] between `zeros` rows of zero, added to `start`."""
        if mask is not None:
            return self.conv.valid(_masked_snake()(x, *terms, mask), *zeros, start)
        if self._summed is None:
            return self.conv.valid(_snake()(x, *terms), *zeros, start)
        even, odd, *before = fast_fir.split_rows(x.shape[1], zeros[0])
        rows = x.shape[1] + sum(zeros) - self.conv.reach
        halves = _snake()(x[:, even], *terms), _snake()(x[:, odd], *terms)
        return fast_fir.fast_fir(*halves, before, self.conv.weight, self._summed, self.conv.dilation, rows, start)


def _activate(x: mx.array, *terms: mx.array) -> mx.array:
    """Snake of x [B, L, C] for the terms of `SnakeConv.terms`."""
    *scale, shift, rate, phase, inverse = terms
    return snake(x * scale[0] + shift if scale else x + shift, x * rate + phase, inverse)


@compiled_cache
def _snake():  # type: ignore[no-untyped-def]
    return mx.compile(_activate)


@compiled_cache
def _masked_snake():  # type: ignore[no-untyped-def]
    return mx.compile(lambda x, *terms: _activate(x, *terms[:-1]) * terms[-1])


@compiled_cache
def _in_cycles():  # type: ignore[no-untyped-def]
    return mx.compile(lambda scale, shift, rate: (scale * rate, shift * rate))


@compiled_cache
def _mean_leaky(slope: float):  # type: ignore[no-untyped-def]
    def mean_leaky(parts: list[mx.array], bias: mx.array) -> mx.array:
        return leaky_relu(sum(parts[1:], parts[0]) * (1 / len(parts)) + bias, slope)

    return mx.compile(mean_leaky)
