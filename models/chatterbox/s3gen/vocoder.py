"""HiFT: mel frames to a waveform.

Li et al. 2023 (HiFTNet, arXiv:2309.09493): pitch is predicted from the mel, its harmonics excite a convolutional
network of Snake blocks, whose output is the magnitude and phase of a short inverse STFT. Reference: `HiFTGenerator` in
chatterbox 0.1.7, models/s3gen/hifigan.py.

The blocks' convolutions add no bias of their own: each bias is added where it is next needed, within the activation
that follows or at the merge of the blocks. On the CPU a block is computed in parts of the time axis, side by side on
the cores; with no statistics over time the parts never meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.chatterbox.config import VocoderConfig
from models.chatterbox.s3gen.f0 import F0Predictor
from models.chatterbox.s3gen.source import HarmonicSource
from models.layers import fast_fir
from models.layers.activation import leaky_relu, sine, snake
from models.layers.compiled import compiled_cache, note_shape
from models.layers.conv import Conv1d, ConvTranspose1d, reflect_left
from models.layers.mask import PaddingMask
from models.layers.stft import Stft

FRAME_BUCKETS = (32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048)
SLOPE, LAST_SLOPE = 0.1, 0.01  # of LeakyReLU within, and (torch's default) before the last convolution
MOST_MAGNITUDE, MOST_AMPLITUDE = 100.0, 0.99
_ALPHA_FLOOR = 1e-9  # the reference's guard against division by zero
_LEAST_ROWS = 128  # parts shorter than this cost more in overlap than they gain
_PART_BYTES = 1 << 20  # of a larger part, a core's cache loses rows from one tap of a convolution to the next


@dataclass(frozen=True, slots=True)
class Carried:
    """What one call leaves to the next: `source` [1, samples] of its first frames, and the phase after them [1, 1]."""

    source: mx.array
    turns: mx.array


@dataclass(frozen=True, slots=True)
class Spoken:
    """Samples `pcm` [1, F * 480], the excitation `source` of the same shape, and the fundamental's phases.

    `turns` uint32 [1, N + 1] are the phases before each of the last N frames, those not carried, and after them all.
    """

    pcm: mx.array
    source: mx.array
    turns: mx.array


@compiled_cache
def _snake(masked: bool):  # type: ignore[no-untyped-def]
    def shifted(x: mx.array, shift: mx.array, rate: mx.array, phase: mx.array, inverse: mx.array) -> mx.array:
        return snake(x + shift, x * rate + phase, inverse)

    return mx.compile((lambda x, *terms: shifted(x, *terms[:-1]) * terms[-1]) if masked else shifted)


@compiled_cache
def _sum():  # type: ignore[no-untyped-def]
    return mx.compile(lambda *terms: sum(terms[1:], terms[0]))


@compiled_cache
def _mean_leaky(slope: float):  # type: ignore[no-untyped-def]
    def mean_leaky(parts: list[mx.array], bias: mx.array) -> mx.array:
        return leaky_relu(sum(parts[1:], parts[0]) * (1 / len(parts)) + bias, slope)

    return mx.compile(mean_leaky)


class SnakeConv(nn.Module):
    """Snake (x + sin^2(alpha x) / alpha) and a convolution, whose bias is left to the next."""

    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.alpha = mx.ones((channels,))
        self.conv = Conv1d(channels, channels, kernel, dilation=dilation, padding=(kernel - 1) * dilation // 2)
        self._terms: tuple[mx.array, ...] = ()
        self._summed: mx.array | None = None

    def lower(self, shift: mx.array) -> None:
        """Prepare for inputs that lack the bias `shift` [C]. Once, after loading."""
        rate = self.alpha * (1 / math.pi)
        self._terms = (shift, rate, shift * rate, 1 / (self.alpha + _ALPHA_FLOOR))
        self.conv.lower()
        if on_cpu() and fast_fir.pays(self.conv.kernel, self.conv.dilation, self.alpha.size):
            self._summed = fast_fir.summed_taps(self.conv.weight)
        mx.eval(self._terms, [] if self._summed is None else self._summed)

    def __call__(self, x: mx.array, zeros: tuple[int, int], mask: mx.array | None, onto: mx.array | None) -> mx.array:
        """Activate and convolve rows x [B, L, C] between `zeros` rows of zero, added to `onto`, without the bias."""
        if mask is not None:
            return self.conv.valid(_snake(True)(x, *self._terms, mask), *zeros, onto)
        if self._summed is None:
            return self.conv.valid(_snake(False)(x, *self._terms), *zeros, onto)
        even, odd, *before = fast_fir.split_rows(x.shape[1], zeros[0])
        rows = x.shape[1] + sum(zeros) - self.conv.reach
        halves = _snake(False)(x[:, even], *self._terms), _snake(False)(x[:, odd], *self._terms)
        return fast_fir.fast_fir(*halves, before, self.conv.weight, self._summed, self.conv.dilation, rows, onto)


class ResBlock(nn.Module):
    """Residual pairs of SnakeConvs, the first of each pair dilated. `bias` is the constant that its result lacks."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.first = [SnakeConv(channels, kernel, d) for d in dilations]
        self.second = [SnakeConv(channels, kernel, 1) for _ in dilations]
        self._bias = mx.zeros((channels,))

    def lower(self) -> None:
        """Hand each bias on to where it is added."""
        shift = mx.zeros_like(self._bias)
        for first, second in zip(self.first, self.second, strict=True):
            first.lower(shift)
            second.lower(first.conv.bias)
            shift = shift + second.conv.bias
        self._bias = shift
        mx.eval(shift)

    @property
    def bias(self) -> mx.array:
        """What has to be added to the result, [C]."""
        return self._bias

    def part(self, x: mx.array, start: int, stop: int, mask: mx.array | None) -> mx.array:
        """Rows [start, stop) of the result for x [B, L, C]; `mask` [B, L, 1] is 1 on valid rows."""
        units = [unit for pair in zip(self.first, self.second, strict=True) for unit in pair]
        halo = sum(unit.conv.padding for unit in units)
        low, high = max(0, start - halo), min(x.shape[1], stop + halo)
        at_start, at_end = low == 0, high == x.shape[1]
        rows = x[:, low:high]
        for first, second in zip(self.first, self.second, strict=True):
            inner, place, end = rows, low, high
            for unit in (first, second):
                # Rows beyond the sequence are zero; rows of a neighboring part are at hand, and used up.
                reach = unit.conv.padding
                zeros = (reach if at_start else 0, reach if at_end else 0)
                masked = None if mask is None else mask[:, place:end]
                place, end = place + reach - zeros[0], end - reach + zeros[1]
                onto = rows[:, place - low : end - low] if unit is second else None
                inner = unit(inner, zeros, masked, onto)
            rows, low, high = inner, place, end
        return rows[:, start - low : stop - low]


class HiFT(nn.Module):
    """The network. Mel [1, F, mels] to samples [1, F * samples_per_frame]."""

    def __init__(self, config: VocoderConfig, mels: int) -> None:
        super().__init__()
        width, bins = config.width, config.n_fft + 2
        self.samples_per_frame = math.prod(config.rates) * config.hop
        self.mels, self.harmonics, self.rates = mels, config.harmonics, config.rates
        self.f0 = F0Predictor(mels, config.f0_width, config.f0_layers)
        self.source = HarmonicSource(config.harmonics, self.samples_per_frame)
        self.pre = Conv1d(mels, width, 7, padding=3, spread=True)
        self.ups, self.source_downs, self.source_blocks, self.blocks = [], [], [], []
        for i, (rate, kernel) in enumerate(zip(config.rates, config.kernels, strict=True)):
            channels, stride = width >> (i + 1), math.prod(config.rates[i + 1 :])
            self.ups.append(ConvTranspose1d(width >> i, channels, kernel, stride=rate, padding=(kernel - rate) // 2))
            size = 1 if stride == 1 else 2 * stride
            self.source_downs.append(
                Conv1d(bins, channels, size, stride=stride, padding=stride // 2 if size > 1 else 0)
            )
            self.source_blocks.append(ResBlock(channels, config.source_kernels[i], config.resblock_dilations))
            kernels = config.resblock_kernels
            self.blocks.append([ResBlock(channels, k, config.resblock_dilations) for k in kernels])
        self.post = Conv1d(width >> len(config.rates), bins, 7, padding=3)
        self._stft = Stft(config.n_fft, config.hop)

    def lower(self) -> None:
        """Bring all weights into this device's order. Once, after loading."""
        for _, module in self.named_modules():
            if isinstance(module, (Conv1d, ConvTranspose1d, ResBlock)):
                module.lower()

    def __call__(
        self,
        mel: mx.array,
        phases: mx.array,
        noise: mx.array,
        count: mx.array | None = None,
        source: mx.array | None = None,
        turns: mx.array | None = None,
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Samples, excitation and phases as in `Spoken`; `source` and `turns` as in `Carried`.

        Starting `phases` uint32 [harmonics + 1]; unit `noise` [1, N, samples_per_frame] of the N frames that are not
        carried; `count` int32 [1] the valid frames if the rest is padding.
        """
        count = None if count is None else count.reshape(1, 1, 1)
        f0 = self.f0(mel, PaddingMask.of(count, mel.shape[1]))
        known = 0 if source is None else source.shape[1] // self.samples_per_frame
        made, after = self.source(f0[:, known:], phases, noise, turns)
        if source is not None:
            made = mx.concatenate([source, made], axis=1)
        return self.decode(mel, made, count), made, after

    def decode(self, mel: mx.array, source: mx.array, count: mx.array | None = None) -> mx.array:
        """Samples [1, F * samples_per_frame] from mel [1, F, mels] and excitation; `count` [1, 1, 1] valid frames."""
        samples = None if count is None else count[:, :, 0] * self.samples_per_frame
        rows = None if count is None else count * math.prod(self.rates) + 1
        with mx.stream(cpu_streams()[-1]):  # beside the mel's first layers
            spectrum = self._stft.spectrum(source, samples)
        spectrum = PaddingMask.of(rows, spectrum.shape[1]).zero(spectrum)
        valid = PaddingMask.of(count, mel.shape[1])
        x = valid.zero(leaky_relu(self.pre(valid.zero(mel)), SLOPE))
        for i, (up, blocks) in enumerate(zip(self.ups, self.blocks, strict=True)):
            last = i + 1 == len(self.ups)
            count = None if count is None else count * self.rates[i] + (1 if last else 0)
            x = up(x)
            if last:
                x = reflect_left(x)
            valid = PaddingMask.of(count, x.shape[1])
            excited = self.source_downs[i](spectrum)
            excitation = _blocks([self.source_blocks[i]], excited, valid, lambda parts: parts[0])
            x = _sum()(x, excitation, self.source_blocks[i].bias)
            bias = sum((b.bias for b in blocks[1:]), blocks[0].bias) * (1 / len(blocks))
            merge = _mean_leaky(LAST_SLOPE if last else SLOPE)
            x = valid.zero(_blocks(blocks, x, valid, lambda parts, merge=merge, bias=bias: merge(parts, bias)))
        x = self.post(x)
        bins = x.shape[2] // 2
        magnitude = mx.minimum(mx.exp(x[..., :bins]), MOST_MAGNITUDE)
        y = self._stft.synthesize(magnitude, sine(x[..., bins:]), valid.mask, samples)
        return mx.clip(y, -MOST_AMPLITUDE, MOST_AMPLITUDE)


def _blocks(blocks: list[ResBlock], x: mx.array, valid: PaddingMask, merge: Any) -> mx.array:
    """`merge` of the blocks' results for x [B, L, C], part by part of the time axis."""
    length, streams = x.shape[1], cpu_streams()
    most = max(1, length // _LEAST_ROWS)
    wanted = -(-x.nbytes // (_PART_BYTES * len(streams))) * len(streams) if on_cpu() else 1
    count = min(wanted, most)
    edges = [length * k // count for k in range(count + 1)]
    parts = []
    for k, (start, stop) in enumerate(pairwise(edges)):
        with mx.stream(streams[k * len(streams) // count]):
            parts.append(merge([block.part(x, start, stop, valid.mask) for block in blocks]))
    return parts[0] if count == 1 else mx.concatenate(parts, axis=1)


class Vocoder:
    """The network with its shape buckets.

    On a GPU the frames are padded to buckets, since each new shape costs kernels there; the results equal the unpadded
    ones. On the CPU nothing is padded, unless `padded` says so.
    """

    def __init__(self, network: HiFT, *, padded: bool | None = None) -> None:
        self.network = network
        self.samples_per_frame, self.harmonics = network.samples_per_frame, network.harmonics
        self._padded = not on_cpu() if padded is None else padded
        # Only its inner functions are compiled: compiled whole it makes 38 kernels instead of 9, and each takes a GPU's
        # compiler seconds.
        self._run = network

    def __call__(self, mel: mx.array, phases: mx.array, noise: mx.array, carried: Carried | None = None) -> Spoken:
        """Speak mel [1, F, mels], F >= 1, of which the first frames may have their excitation `carried`.

        `phases` uint32 [harmonics + 1]; unit `noise` [1, N, samples_per_frame] for the N frames not carried.
        """
        frames = mel.shape[1]
        source, turns = (None, None) if carried is None else (carried.source, carried.turns)
        if not self._padded:
            note_shape("vocoder", frames, 0 if carried is None else carried.source.shape[1])
            return Spoken(*self._run(mel, phases, noise, None, source, turns))
        more = [(0, 0), (0, bucket(frames) - frames), (0, 0)]
        count = mx.array([frames])
        pcm, source, turns = self._run(mx.pad(mel, more), phases, mx.pad(noise, more), count, source, turns)
        samples = frames * self.samples_per_frame
        return Spoken(pcm[:, :samples], source[:, :samples], turns[:, : noise.shape[1] + 1])

    def warm(self, frames: int, known: int = 0) -> None:
        """Run the shape of `frames`, of which `known` are carried, so that its kernels are there when it is needed."""
        size = self.samples_per_frame
        turns = mx.zeros((1, 1), dtype=mx.uint32)
        carried = Carried(mx.zeros((1, known * size)), turns) if known else None
        phases = mx.zeros((self.harmonics + 1,), dtype=mx.uint32)
        mel = mx.zeros((1, frames, self.network.mels))
        mx.eval(self(mel, phases, mx.zeros((1, frames - known, size)), carried).pcm)


def bucket(frames: int) -> int:
    """The smallest of FRAME_BUCKETS that holds `frames`; beyond the last, it doubles."""
    last = FRAME_BUCKETS[-1]
    while last < frames:
        last *= 2
    return next((size for size in FRAME_BUCKETS if size >= frames), last)
