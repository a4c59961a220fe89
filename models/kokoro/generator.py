"""iSTFTNet generator with a harmonic source: decoder features and F0 to a waveform.

Kaneko et al. 2022 (arXiv:2203.02395) over HiFi-GAN's residual blocks with AdaIN and Snake, as StyleTTS 2
(arXiv:2306.07691) uses it; reference: `kokoro/istftnet.py` of the `kokoro` package.

The residual blocks are nine tenths of Kokoro's arithmetic. On the CPU each is computed in as many parts of the time
axis as there are cores, side by side: a part carries the rows that its convolutions still need beyond its own and
sheds them as it goes, so that parts meet only in AdaIN's statistics. A GPU computes one part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.kokoro.config import IstftNetConfig
from models.kokoro.source import HarmonicSource
from models.layers import fast_fir
from models.layers.activation import leaky_relu, sine, snake
from models.layers.compiled import compiled_cache
from models.layers.conv import Conv1d, ConvTranspose1d, reflect_left
from models.layers.kernels import cuda
from models.layers.mask import PaddingMask
from models.layers.norm import affine_of, moments
from models.layers.stft import Stft
from models.layers.style import StyleAffine, StyleBank

_LEAST_ROWS = 128  # parts shorter than this cost more in overlap than they gain


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows [low, high) of a sequence, of which [start, stop) are this part's own."""

    rows: mx.array
    low: int
    high: int
    start: int
    stop: int
    lane: mx.Stream


@compiled_cache
def _snake():  # type: ignore[no-untyped-def]
    return mx.compile(_affine_snake)


@compiled_cache
def _snake_masked():  # type: ignore[no-untyped-def]
    return mx.compile(lambda x, *terms: _affine_snake(x, *terms[:-1]) * terms[-1])


def _affine_snake(
    x: mx.array, scale: mx.array, shift: mx.array, rate: mx.array, phase: mx.array, inverse: mx.array
) -> mx.array:
    return snake(x * scale + shift, x * rate + phase, inverse)


@compiled_cache
def _in_cycles():  # type: ignore[no-untyped-def]
    return mx.compile(lambda scale, shift, rate: (scale * rate, shift * rate))


class SnakeUnit(nn.Module):
    """AdaIN, Snake (x + sin^2(alpha x) / alpha) and a convolution."""

    def __init__(self, channels: int, kernel: int, dilation: int, style_dim: int) -> None:
        super().__init__()
        self.norm = StyleAffine(style_dim, channels)
        self.alpha = mx.ones((channels,))
        self.conv = Conv1d(channels, channels, kernel, dilation=dilation, padding=(kernel - 1) * dilation // 2)
        self._summed: mx.array | None = None
        self._prepare_activation()

    def _prepare_activation(self) -> None:
        self._rate, self._inverse = self.alpha * (1 / math.pi), 1 / self.alpha

    def lower(self) -> None:
        """Compute what the activation and the fast convolution need of the weights, once, after loading."""
        self._prepare_activation()
        self.conv.lower()
        if on_cpu() and fast_fir.pays(self.conv.kernel, self.conv.dilation, self.alpha.size):
            self._summed = fast_fir.summed_taps(self.conv.weight)
            mx.eval(self._summed)

    def __call__(
        self, parts: list[_Part], styled: mx.array, length: int, valid: PaddingMask, onto: list[_Part] | None
    ) -> list[_Part]:
        """Apply to every part; `onto` are parts to add the result to (the residual). Bias is left out."""
        affine = self.norm(styled)
        if cuda.available():
            part = parts[0]
            rows = cuda.adain(part.rows, affine, self.alpha, valid.number(part.rows))
            rows = self.conv.valid(rows, self.conv.padding, self.conv.padding, None if onto is None else onto[0].rows)
            return [replace(part, rows=rows)]
        gamma, beta = mx.split(affine[:, None], 2, axis=-1)
        seen = []
        for part in parts:
            with mx.stream(part.lane):
                own = slice(part.start - part.low, part.stop - part.low)
                mask, count = None, valid.count
                if valid.mask is not None and len(parts) > 1:
                    mask = valid.mask[:, part.start : part.stop]
                    count = mx.sum(mask, axis=1, keepdims=True)
                elif valid.mask is not None:
                    mask = valid.mask
                seen.append(moments(part.rows[:, own], mask, count))
        scale, shift = affine_of(seen, gamma, beta)
        cycles = _in_cycles()(scale, shift, self._rate)
        reach = self.conv.padding
        done = []
        for k, part in enumerate(parts):
            with mx.stream(part.lane):
                # Rows beyond the sequence are zero; rows of a neighbor are at hand, and used up.
                left, right = (reach if part.low == 0 else 0), (reach if part.high == length else 0)
                low, high = part.low + reach - left, part.high - reach + right
                start = None
                if onto is not None:
                    residual = onto[k]
                    start = residual.rows[:, low - residual.low : high - residual.low]
                mask = None if valid.mask is None else valid.mask[:, part.low : part.high]
                rows = self._convolve(part.rows, (scale, shift), cycles, mask, (left, right), start)
            done.append(_Part(rows, low, high, part.start, part.stop, part.lane))
        return done

    def _convolve(
        self,
        x: mx.array,
        affine: tuple[mx.array, mx.array],
        cycles: tuple[mx.array, mx.array],
        mask: mx.array | None,
        zeros: tuple[int, int],
        start: mx.array | None,
    ) -> mx.array:
        """Activate and convolve rows x [B, L, C] between `zeros` rows of zero, onto `start`."""
        terms = (*affine, *cycles, self._inverse)
        if mask is not None:
            return self.conv.valid(_snake_masked()(x, *terms, mask), *zeros, start)
        if self._summed is None:
            return self.conv.valid(_snake()(x, *terms), *zeros, start)
        even, odd, *before = fast_fir.split_rows(x.shape[1], zeros[0])
        rows = x.shape[1] + sum(zeros) - self.conv.reach
        halves = _snake()(x[:, even], *terms), _snake()(x[:, odd], *terms)
        return fast_fir.fast_fir(*halves, before, self.conv.weight, self._summed, self.conv.dilation, rows, start)


class ResBlock(nn.Module):
    """Three residual pairs of SnakeUnits, the first of each pair dilated (`AdaINResBlock1`).

    The convolutions' biases: the first of a pair's is removed by the AdaIN that follows; the seconds' add up to a
    constant, `bias()`, that the AdaINs within do not see, and is added once at the end.
    """

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...], style_dim: int) -> None:
        super().__init__()
        self.first = [SnakeUnit(channels, kernel, d, style_dim) for d in dilations]
        self.second = [SnakeUnit(channels, kernel, 1, style_dim) for _ in dilations]

    def bias(self) -> mx.array:
        """Sum of the biases left out, [C]."""
        total = self.second[0].conv.bias
        for unit in self.second[1:]:
            total = total + unit.conv.bias
        return total

    def __call__(self, x: mx.array, styled: mx.array, valid: PaddingMask) -> list[_Part]:
        length = x.shape[1]
        halo = sum(unit.conv.padding for unit in (*self.first, *self.second))
        parts = _split(x, halo)
        for first, second in zip(self.first, self.second, strict=True):
            inner = first(parts, styled, length, valid, None)
            parts = second(inner, styled, length, valid, parts)
        return parts


def _split(x: mx.array, halo: int) -> list[_Part]:
    length = x.shape[1]
    streams = cpu_streams()[: max(1, length // _LEAST_ROWS)]
    edges = [length * k // len(streams) for k in range(len(streams) + 1)]
    parts = []
    for lane, start, stop in zip(streams, edges, edges[1:], strict=False):
        low, high = max(0, start - halo), min(length, stop + halo)
        parts.append(_Part(x[:, low:high], low, high, start, stop, lane))
    return parts


def _join(parts: list[_Part]) -> mx.array:
    if len(parts) == 1:
        return parts[0].rows
    return mx.concatenate([p.rows[:, p.start - p.low : p.stop - p.low] for p in parts], axis=1)


class Generator(nn.Module):
    """Features [B, T, C], style [B, S] and F0 [B, T] to samples [B, T * samples_per_step]; T counts half frames."""

    def __init__(self, config: IstftNetConfig, style_dim: int) -> None:
        super().__init__()
        channels, n_fft = config.upsample_initial_channel, config.gen_istft_n_fft
        self.source = HarmonicSource(config.samples_per_step)
        self.ups, self.noise_convs, self.noise_res, self.resblocks = [], [], [], []
        stages = list(zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True))
        for i, (rate, kernel) in enumerate(stages):
            width = channels >> (i + 1)
            up = partial(ConvTranspose1d, stride=rate, padding=(kernel - rate) // 2)
            self.ups.append(up(channels >> i, width, kernel))
            stride = math.prod(config.upsample_rates[i + 1 :])
            if i + 1 < len(stages):
                conv = Conv1d(n_fft + 2, width, 2 * stride, stride=stride, padding=(stride + 1) // 2)
            else:
                conv = Conv1d(n_fft + 2, width, 1)
            self.noise_convs.append(conv)
            last = 11 if i + 1 == len(stages) else 7
            self.noise_res.append(ResBlock(width, last, (1, 3, 5), style_dim))
            sizes = zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True)
            self.resblocks.append([ResBlock(width, k, d, style_dim) for k, d in sizes])
        self.conv_post = Conv1d(channels >> len(stages), n_fft + 2, 7, padding=3)
        self.rates = config.upsample_rates
        self._stft = Stft(n_fft, config.gen_istft_hop_size)
        self.bind_styles()

    def bind_styles(self) -> None:
        """Gather the style projections; again whenever the weights change."""
        self._bank = StyleBank.of(self)

    def __call__(
        self, x: mx.array, style: mx.array, f0: mx.array, noise: mx.array, steps: mx.array | None = None
    ) -> mx.array:
        """`noise` is the source's merged noise [B, T * samples_per_step]; `steps` [B, 1] the valid T if padded.

        Source, transforms and the exponential are float32; the rest computes in x's type.
        """
        *_, (samples,) = self.pieces(x, style, f0, noise, steps)
        return samples

    def pieces(
        self, x: mx.array, style: mx.array, f0: mx.array, noise: mx.array, steps: mx.array | None = None
    ) -> Iterator[list[mx.array]]:
        """What `__call__` computes, in pieces of the work: the arrays that end each. The last holds the samples alone.

        Whoever evaluates each before it asks for the next may do something else in between.
        """
        styled = self._bank(style)
        samples = None if steps is None else steps * self.source.samples_per_step
        with mx.stream(cpu_streams()[-1]):  # beside the features, which do not need it
            magnitude, phase = self._stft.analyze(self.source(f0, noise, steps), samples)
            harmonics = mx.concatenate([magnitude, phase], axis=2)
        count = None if steps is None else steps[:, :, None]
        frames = None if count is None else count * math.prod(self.rates) + 1
        harmonics = PaddingMask.of(frames, harmonics.shape[1]).zero(harmonics).astype(x.dtype)
        x = PaddingMask.of(count, x.shape[1]).zero(leaky_relu(x, 0.1))
        yield [x, harmonics]
        valid = PaddingMask()
        for i, (up, blocks) in enumerate(zip(self.ups, self.resblocks, strict=True)):
            last = i + 1 == len(self.ups)
            source = self.noise_convs[i](harmonics)
            count = None if count is None else count * self.rates[i] + (1 if last else 0)
            valid = PaddingMask.of(count, source.shape[1])
            excitation = _join(self.noise_res[i](valid.zero(source), styled, valid))
            yield [excitation]
            x = up(x)
            if last:
                x = reflect_left(x)
            x = valid.zero(_add3()(x, excitation, self.noise_res[i].bias()))
            results = []
            for block in blocks:
                results.append(block(x, styled, valid))
                yield [part.rows for part in results[-1]]
            x = valid.zero(self._merge(blocks, results, 0.01 if last else 0.1))
        x = self.conv_post(x).astype(mx.float32)
        bins = x.shape[2] // 2
        yield [self._stft.synthesize(mx.exp(x[..., :bins]), sine(x[..., bins:]), valid.mask, samples)]

    @staticmethod
    def _merge(blocks: list[ResBlock], results: list[list[_Part]], slope: float) -> mx.array:
        """Mean of the residual blocks' results, with their constants, through LeakyReLU."""
        bias = sum((b.bias() for b in blocks[1:]), blocks[0].bias()) * (1 / len(blocks))
        merged = []
        for same in zip(*results, strict=True):
            with mx.stream(same[0].lane):
                own = [p.rows[:, p.start - p.low : p.stop - p.low] for p in same]
                merged.append(_mean_leaky(slope)(own, bias))
        return merged[0] if len(merged) == 1 else mx.concatenate(merged, axis=1)


@compiled_cache
def _add3():  # type: ignore[no-untyped-def]
    return mx.compile(lambda a, b, c: a + b + c)


@compiled_cache
def _mean_leaky(slope: float):  # type: ignore[no-untyped-def]
    def mean_leaky(parts: list[mx.array], bias: mx.array) -> mx.array:
        return leaky_relu(sum(parts[1:], parts[0]) * (1 / len(parts)) + bias, slope)

    return mx.compile(mean_leaky)
