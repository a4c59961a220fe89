"""Parts that vocoders share: the harmonic source, Snake with its convolution, and the Fourier transform.

A vocoder in the line of HiFi-GAN with an iSTFT at its end (arXiv:2203.02395) turns F0 into an excitation signal, takes
its spectrum, refines features by residual blocks, and transforms them back to samples.

The residual blocks are chains of Snake (Ziyin et al. 2020, arXiv:2006.08195) and a convolution, and nine tenths of a
vocoder's arithmetic. On the CPU a block is computed in parts of the time axis, side by side on the cores. A part has a
halo: the rows beyond its own that its convolutions need. Each convolution uses some of them up. A GPU computes one
part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from mlx import nn

from models.backend import compiled, constant, cpu_streams, mx, on_cpu
from models.layers import fast_fir
from models.layers.activation import leaky_relu, sine, snake
from models.layers.conv import Conv1d, places
from models.native import kernels

MIN_ROWS = 128  # shorter parts cost more in overlap than they gain
SINE_AMPLITUDE, VOICED_NOISE, UNVOICED_NOISE, VOICED_ABOVE_HZ = 0.1, 0.003, 0.1 / 3, 10.0
_OVERLAP = 1.5  # sum of four squared periodic Hann windows a quarter apart

Terms = tuple[mx.array, ...]


class HarmonicSource(nn.Module):
    """Linear merge `l_linear` of `harmonics` sines and their noise into one excitation signal.

    Wang et al. 2019 (neural source-filter, arXiv:1904.12088); reference: `SourceModuleHnNSF` of `kokoro/istftnet.py`
    and of chatterbox 0.1.7, models/s3gen/hifigan.py. Each family computes the phases as its own reference does.

    The reference adds independent noise to each harmonic before the merge. A sum of weighted normals is one normal, so
    one is drawn per sample; its standard deviation is `noise_gain`.
    """

    def __init__(self, harmonics: int) -> None:
        super().__init__()
        self.l_linear = nn.Linear(harmonics, 1)

    def noise_gain(self) -> mx.array:
        """Return the standard deviation of the merged noise for unit noise on every harmonic."""
        return mx.linalg.norm(self.l_linear.weight)


def excitation(waves: mx.array, noise: mx.array, bias: mx.array, f0: mx.array) -> mx.array:
    """Return tanh of merged sines `waves` [B, T, S], merged `noise` of the same shape and the merge's `bias` [1].

    `f0` [B, T, 1] in Hz is that of each step of S samples. Up to 10 Hz a step is unvoiced: no sines, and more noise.
    """
    voiced = f0 > VOICED_ABOVE_HZ
    level = mx.where(voiced, VOICED_NOISE, UNVOICED_NOISE)
    return mx.tanh(waves * mx.where(voiced, SINE_AMPLITUDE, 0.0) + noise * level + bias)


@dataclass(frozen=True, slots=True)
class RowRange:
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


def split(x: mx.array, halo: int, count: int | None = None) -> list[RowRange]:
    """Cut x [B, L, C] into `count` parts (default: one a CPU stream), but none shorter than MIN_ROWS."""
    length, streams = x.shape[1], cpu_streams()
    count = min(len(streams) if count is None else count, max(1, length // MIN_ROWS))
    edges = [length * k // count for k in range(count + 1)]
    parts = []
    for k, (start, stop) in enumerate(pairwise(edges)):
        low, high = max(0, start - halo), min(length, stop + halo)
        parts.append(RowRange(x[:, low:high], low, high, start, stop, length, streams[k * len(streams) // count]))
    return parts


def merge(
    blocks: Sequence[Sequence[RowRange]],
    bias: mx.array,
    slope: float,
    mask: mx.array | None = None,
    onto: mx.array | None = None,
) -> mx.array:
    """Return LeakyReLU of the mean of several blocks' results plus `bias`, [B, L, C].

    Args:
        blocks: Each gives its result in the same parts; each part is merged on its own stream.
        bias: [C].
        slope: Of LeakyReLU.
        mask: [B, L, 1], 0 on rows where the result is zero; None where no row is padding.
        onto: What the result is added to, before the mask, [B, L, C].
    """
    merged = []
    for same in zip(*blocks, strict=True):
        own = slice(same[0].start, same[0].stop)
        cut = [None if each is None else each[:, own] for each in (onto, mask)]
        with mx.stream(same[0].stream):
            merged.append(_mean_leaky(slope, [part.own() for part in same], bias, *cut))
    return merged[0] if len(merged) == 1 else mx.concatenate(merged, axis=1)


class SnakeConv:
    """Snake (y + sin^2(alpha y) / alpha, for y = x * scale + shift), then a convolution without its bias.

    It works on weights that its owner holds as parameters: `conv`, dense and of stride 1, and `alpha` [C]. Make it once
    they are loaded; it lowers `conv`. `floor` is added to alpha before the division.
    """

    def __init__(self, conv: Conv1d, alpha: mx.array, floor: float = 0.0) -> None:
        conv.lower()
        self.conv = conv
        self.rate, self.inverse = alpha * (1 / math.pi), 1 / (alpha + floor)
        fast = on_cpu() and fast_fir.pays(conv.kernel, conv.dilation, alpha.size)
        self._summed = fast_fir.summed_taps(conv.weight) if fast else None
        mx.eval(self.rate, self.inverse, [] if self._summed is None else self._summed)

    def terms(self, shift: mx.array, scale: mx.array | None = None) -> Terms:
        """Return what the activation needs for inputs x * scale + shift; both broadcast to [B, L, C]."""
        if scale is None:
            return (shift, self.rate, shift * self.rate, self.inverse)
        return (scale, shift, *_in_cycles(scale, shift, self.rate), self.inverse)

    def __call__(
        self, part: RowRange, terms: Terms, mask: mx.array | None = None, onto: RowRange | None = None
    ) -> RowRange:
        """Activate and convolve a part, and add the rows of `onto` (the residual) where given.

        `mask` [B, L, 1] of the whole sequence is 1 on valid rows; what is activated is zero on others. The result lacks
        the rows of the halo that the convolution used up. Run it on the part's stream.
        """
        # Rows beyond the sequence are zero; rows of a neighboring part are at hand.
        reach = self.conv.padding
        left, right = (reach if part.low == 0 else 0), (reach if part.high == part.length else 0)
        low, high = part.low + reach - left, part.high - reach + right
        start = None if onto is None else onto.rows[:, low - onto.low : high - onto.low]
        x, conv = part.rows, self.conv
        if mask is not None:
            rows = conv.valid(_snake(x, terms, mask[:, part.low : part.high]), left, right, start)
        elif self._summed is None:
            rows = conv.valid(_snake(x, terms), left, right, start)
        else:
            even, odd, *before = fast_fir.split_rows(x.shape[1], left)
            count = x.shape[1] + left + right - conv.reach
            halves = _snake(x[:, even], terms), _snake(x[:, odd], terms)
            rows = fast_fir.fast_fir(*halves, before, conv.weight, self._summed, conv.dilation, count, start)
        return RowRange(rows, low, high, part.start, part.stop, part.length, part.stream)


@compiled
def _snake(x: mx.array, terms: Terms, mask: mx.array | None = None) -> mx.array:
    """Return Snake of x [B, L, C] for the terms of `SnakeConv.terms`, times the mask."""
    *scale, shift, rate, phase, inverse = terms
    y = snake(x * scale[0] + shift if scale else x + shift, x * rate + phase, inverse)
    return y if mask is None else y * mask


@compiled
def _in_cycles(scale: mx.array, shift: mx.array, rate: mx.array) -> tuple[mx.array, mx.array]:
    return scale * rate, shift * rate


@compiled
def _mean_leaky(
    slope: float, parts: list[mx.array], bias: mx.array, onto: mx.array | None, mask: mx.array | None
) -> mx.array:
    y = leaky_relu(sum(parts[1:], parts[0]) * (1 / len(parts)) + bias, slope)
    y = y if onto is None else onto + y
    return y if mask is None else y * mask.astype(y.dtype)


class Stft(nn.Module):
    """Short-time Fourier transform with a periodic Hann window, and its inverse, at `n_fft` points and hop n_fft / 4.

    The values are those of torch.stft / torch.istft with center=True. The transform is a convolution with the windowed
    Fourier basis at a stride of one hop, the inverse a product with its own basis and a sum of neighbors, four at a
    time. It holds no parameters.
    """

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        if n_fft != 4 * hop:
            raise ValueError(f"hop must be n_fft / 4, not {hop} for {n_fft}")
        self.n_fft, self.hop, self.bins = n_fft, hop, n_fft // 2 + 1
        n, k = np.arange(n_fft)[:, None], np.arange(self.bins)[None]
        window = 0.5 - 0.5 * np.cos(2 * math.pi * n / n_fft)
        angle = 2 * math.pi * ((n * k) % n_fft) / n_fft
        once = (k == 0) | (k == n_fft // 2)
        real, imaginary = np.cos(angle), np.where(once, 0.0, -np.sin(angle))
        forward = np.concatenate([real, imaginary], 1) * window
        weight = np.where(once, 1.0, 2.0) / (n_fft * _OVERLAP)
        inverse = np.concatenate([real * weight, imaginary * weight], 1) * window
        self._analysis = Conv1d(1, 2 * self.bins, n_fft, stride=hop, bias=False)
        # MLX keeps the strides of an array from the host: it would copy the weight at every use.
        self._analysis.weight = mx.array(np.ascontiguousarray(forward.T[:, :, None], dtype=np.float32))
        self._analysis.lower()
        self._inverse = mx.array(np.ascontiguousarray(inverse.T, dtype=np.float32))
        # The first and last hop of the result lack the frame that would lie beyond the signal.
        squares = window[:, 0] ** 2
        edges = mx.array((_OVERLAP / (_OVERLAP - np.stack([squares[-hop:], squares[:hop]]))).astype(np.float32))
        self._head, self._tail = edges
        # Of the two halves of a row: magnitude or real part, then phase or imaginary part.
        self._first, self._quarter = mx.array([[True], [False]]), mx.array([[math.pi / 2], [0.0]])
        self._once = mx.array(once)
        mx.eval(self._inverse, self._head, self._tail)
        self._native: kernels.Fourier | None = None
        if kernels.available():
            halves = mx.array(forward.reshape(n_fft, 2, self.bins).astype(np.float32))
            self._native = kernels.Fourier(halves, mx.array(inverse.T.astype(np.float32)), edges)

    def spectrum(self, x: mx.array, samples: mx.array | None = None) -> mx.array:
        """Return real, then imaginary parts, [B, N / hop + 1, 2 * bins], of x [B, N], reflected at both ends.

        `samples` [B, 1] gives the valid lengths of padded signals: the right reflection is about their last sample.
        """
        if self._native is not None:
            return self._native.analyze(x, samples, polar=False)
        half = self.n_fft // 2
        if samples is None:
            x = mx.concatenate([x[:, half:0:-1], x, x[:, -2 : -half - 2 : -1]], axis=1)
        else:
            at = _reflected_left(x.shape[1], half)
            at = mx.where(at < samples, at, mx.maximum(2 * (samples - 1) - at, 0))
            # `take_along_axis` is a kernel of its own, which MLX compiles for seven seconds.
            x = mx.take(x.reshape(-1), at + _row_starts(*x.shape), axis=0)
        return self._analysis(x[:, :, None])

    def analyze(self, x: mx.array, samples: mx.array | None = None) -> mx.array:
        """Return magnitudes, then phases, [B, N / hop + 1, 2 * bins], of x [B, N]; `samples` as in `spectrum`.

        The phase of a negative real bin is +pi, as torch's.
        """
        if self._native is not None:
            return self._native.analyze(x, samples, polar=True)
        spectrum = self.spectrum(x, samples).reshape(x.shape[0], -1, 2, self.bins)
        real, imaginary = spectrum[:, :, :1], spectrum[:, :, 1:]
        # Reflection makes the first frame symmetric: its imaginary part is rounding noise, whose sign would choose
        # between +pi and -pi.
        imaginary = mx.where(places(spectrum.shape[1])[..., None] == 0, 0.0, imaginary)
        ends = mx.where(real < 0, math.pi, 0.0)
        phase = mx.where(self._once, ends, mx.arctan2(imaginary, real))
        polar = mx.where(self._first, mx.sqrt(real * real + imaginary * imaginary), phase)
        return polar.reshape(x.shape[0], -1, 2 * self.bins)

    def head(
        self, x: mx.array, mask: mx.array | None = None, samples: mx.array | None = None, *, most: float = math.inf
    ) -> mx.array:
        """Return `synthesize` of magnitudes exp(m), at most `most`, and phases sin(a), for x [B, F, 2 * bins]: m, a.

        What x has beyond 2 * bins is left out.
        """
        if self._native is not None:
            return self._native.synthesize(x, samples, most)
        x = x[:, :, None]
        magnitude, phase = mx.exp(x[..., : self.bins]), sine(x[..., self.bins : 2 * self.bins])
        return self.synthesize(mx.minimum(magnitude, most), phase, mask, samples)

    def synthesize(
        self, magnitude: mx.array, phase: mx.array, mask: mx.array | None, samples: mx.array | None
    ) -> mx.array:
        """Return the signal [B, (F - 1) * hop] of magnitude and phase [B, F, 1, bins].

        `mask` [B, F, 1] is 1 on valid frames and `samples` [B, 1] the valid length, (valid frames - 1) * hop.
        """
        batch, count, hop = *magnitude.shape[:2], self.hop
        spectrum = magnitude * sine(phase + self._quarter)
        if mask is not None:
            spectrum = spectrum * mask[..., None]
        spectrum = spectrum.reshape(batch, count, 2 * self.bins)
        # Hop j of the signal is a sum of quarters of the frames j + 2 to j - 1; the outermost are beyond the ends.
        hops = (mx.pad(spectrum, [(0, 0), (1, 1), (0, 0)]) @ self._inverse).reshape(batch, count + 2, 4, hop)
        y = hops[:, 3:, 0] + hops[:, 2:-1, 1] + hops[:, 1:-2, 2] + hops[:, :-3, 3]
        first = places(count - 1) * hop  # sample of each hop
        end = (count - 1) * hop if samples is None else samples[:, :, None]
        y = y * mx.where(first == 0, self._head, 1.0) * mx.where(first == end - hop, self._tail, 1.0)
        return mx.where(first < end, y, 0.0).reshape(batch, -1)


@lru_cache(maxsize=64)
def _row_starts(rows: int, samples: int) -> mx.array:
    """Return the number of the first sample of each row [rows, 1]."""
    return constant(samples * mx.arange(rows)[:, None])


@lru_cache(maxsize=16)
def _reflected_left(samples: int, half: int) -> mx.array:
    """Return the samples' numbers [1, samples + 2 * half] from -half on, reflected at 0."""
    return constant(mx.abs(mx.arange(-half, samples + half))[None])
