"""HiFT: mel frames to a waveform.

Li et al. 2023 (HiFTNet, arXiv:2309.09493): pitch is predicted from the mel, its harmonics excite a convolutional
network of Snake blocks, whose output is the magnitude and phase of a short inverse STFT. Reference: `HiFTGenerator` in
chatterbox 0.1.7, models/s3gen/hifigan.py.

The blocks' convolutions add no bias of their own: the next activation adds it, or the merge of the blocks. On the CPU
a block is computed in parts of the time axis, side by side on the cores (`models.layers.vocoder`); on an NVIDIA GPU, in
bfloat16, by kernels for all blocks of a stage (`models.layers.residual_blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlx import nn

from models.backend import bucket, cpu_streams, mx, note_shape, on_cpu
from models.chatterbox.config import VocoderConfig
from models.chatterbox.s3gen.source import F0Predictor, FixedPointSource
from models.layers import residual_blocks
from models.layers.activation import leaky_relu
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask, reflect_left
from models.layers.vocoder import RowRange, SnakeConv, Stft, Terms, merge, split
from models.native import kernels

FRAME_BUCKETS = (32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048)
SLOPE, LAST_SLOPE = 0.1, 0.01  # of LeakyReLU within, and (torch's default) before the last convolution
MAX_MAGNITUDE, MAX_AMPLITUDE = 100.0, 0.99
_ALPHA_FLOOR = 1e-9  # the reference's guard against division by zero
_PART_BYTES = 1 << 20  # in larger parts a core's cache loses rows from one tap of a convolution to the next


@dataclass(frozen=True, slots=True)
class Carried:
    """State for the next call: `source` [1, samples] of its first frames, and the phase after them [1, 1]."""

    source: mx.array
    turns: mx.array


@dataclass(frozen=True, slots=True)
class Spoken:
    """Samples `pcm` [1, F * 480], the excitation `source` of the same shape, and the fundamental's phases.

    `turns` uint32 [1, N + 1] are the phases before each of the N frames that were not carried, and after all of them.
    """

    pcm: mx.array
    source: mx.array
    turns: mx.array


class Snake(nn.Module):
    """Parameter `alpha` [C] of the activation x + sin^2(alpha x) / alpha."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = mx.ones((channels,))


class HiFTResBlock(nn.Module):
    """Residual pairs of Snake and a convolution, the first of each pair dilated. The result lacks `bias`."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        conv = partial(Conv1d, channels, channels, kernel)
        self.convs1 = [conv(dilation=d, padding=(kernel - 1) * d // 2) for d in dilations]
        self.convs2 = [conv(padding=(kernel - 1) // 2) for _ in dilations]
        self.activations1, self.activations2 = ([Snake(channels) for _ in dilations] for _ in range(2))
        self._units: list[tuple[SnakeConv, Terms]] = []
        self._bias = mx.zeros((channels,))
        self.packed: kernels.PackedBlock | None = None

    def lower(self) -> None:
        """Hand each bias on to the activation that adds it; once, after loading."""
        convs = [conv for pair in zip(self.convs1, self.convs2, strict=True) for conv in pair]
        snakes = [snake for pair in zip(self.activations1, self.activations2, strict=True) for snake in pair]
        shifts, total = [], mx.zeros_like(self._bias)
        for first, second in zip(self.convs1, self.convs2, strict=True):
            shifts += [total, first.bias]
            total = total + second.bias
        self._bias = total
        for conv in convs:
            conv.lower()
        dilations = [conv.dilation for conv in self.convs1]
        alphas = [snake.alpha for snake in snakes]
        packed = kernels.pack_block([conv.packed for conv in convs], dilations, alphas, floor=_ALPHA_FLOOR)
        if packed is not None:
            self.packed = replace(packed, shifts=mx.stack(shifts))
            mx.eval(total, self.packed.shifts)
            return
        units = [SnakeConv(conv, each.alpha, _ALPHA_FLOOR) for conv, each in zip(convs, snakes, strict=True)]
        self._units = [(unit, unit.terms(shift)) for unit, shift in zip(units, shifts, strict=True)]
        mx.eval(total, [terms for _, terms in self._units])

    @property
    def bias(self) -> mx.array:
        """Constant to add to the result, [C]."""
        return self._bias

    @property
    def units(self) -> residual_blocks.Chain:
        """Each Snake with its convolution, lowered; none where the native kernel computes the block."""
        return [residual_blocks.Unit(unit.conv, unit.rate, unit.inverse, shift=terms[0]) for unit, terms in self._units]

    def __call__(self, x: mx.array, mask: mx.array | None) -> list[RowRange]:
        """x [B, L, C] -> the result in parts; `mask` [B, L, 1] is 1 on valid rows."""
        halo, streams = sum(unit.conv.padding for unit, _ in self._units), len(cpu_streams())
        # A multiple of the CPU's streams, so that each part fits its cache.
        count = -(-x.nbytes // (_PART_BYTES * streams)) * streams if on_cpu() else 1
        return [self._part(part, mask) for part in split(x, halo, count)]

    def _part(self, part: RowRange, mask: mx.array | None) -> RowRange:
        with mx.stream(part.stream):
            for (first, terms1), (second, terms2) in zip(self._units[::2], self._units[1::2], strict=True):
                part = second(first(part, terms1, mask), terms2, mask, onto=part)
        return part


class MeanOfBlocks:
    """LeakyReLU of the mean of the results that residual blocks, whose owner is another module, have for one input."""

    def __init__(self, blocks: Sequence[HiFTResBlock]) -> None:
        self._blocks = blocks
        self._bias = mx.zeros_like(blocks[0].bias)
        self._prepared: residual_blocks.Prepared | None = None

    def lower(self) -> None:
        """Prepare the kernels of a GPU, and the blocks' bias; once the blocks are lowered."""
        blocks = self._blocks
        self._bias = sum((block.bias for block in blocks[1:]), blocks[0].bias) * (1 / len(blocks))
        mx.eval(self._bias)
        chains = [block.units for block in blocks]
        if all(unit.conv.bfloat16 for chain in chains for unit in chain):
            self._prepared = residual_blocks.prepare("the vocoder's kernels", chains, self._plain)

    @property
    def uses_kernels(self) -> bool:
        """True if a GPU's kernels compute the blocks."""
        return self._prepared is not None

    def _plain(self, x: mx.array, count: mx.array, _style: mx.array | None) -> list[mx.array]:
        mask = PaddingMask.of(count[:, None, None], x.shape[1]).mask
        return [part.rows for block in self._blocks for part in block(x, mask)]

    def __call__(self, x: mx.array, valid: PaddingMask, slope: float = 1.0, onto: mx.array | None = None) -> mx.array:
        """x [B, L, C] -> [B, L, C], added to `onto`; zero on padding."""
        packed = [block.packed for block in self._blocks if block.packed is not None]
        if len(packed) == len(self._blocks):
            *_, mean = kernels.mean_of_blocks(packed, x, None, valid.counts, self._bias, slope)
            return valid.zero(mean if onto is None else onto + mean)
        if self._prepared is None or valid.mask is None:
            return merge([block(x, valid.mask) for block in self._blocks], self._bias, slope, valid.mask, onto)
        return residual_blocks.compute(
            self._prepared, x, valid.number(x), residual_blocks.Ending(self._bias, slope, onto)
        )


class HiFT(nn.Module):
    """The network. Mel [1, F, mels] to samples [1, F * samples_per_frame]."""

    def __init__(self, config: VocoderConfig, mels: int) -> None:
        super().__init__()
        width, bins = config.width, config.n_fft + 2
        self.samples_per_frame = math.prod(config.rates) * config.hop
        self.mels, self.harmonics, self.rates = mels, config.harmonics, config.rates
        self.f0_predictor = F0Predictor(mels, config.f0_width, config.f0_layers)
        self.m_source = FixedPointSource(config.harmonics, self.samples_per_frame)
        self.conv_pre = Conv1d(mels, width, 7, padding=3, spread=True)
        self.ups, self.source_downs, self.source_resblocks, self.resblocks = [], [], [], []
        for i, (rate, kernel) in enumerate(zip(config.rates, config.kernels, strict=True)):
            channels, stride = width >> (i + 1), math.prod(config.rates[i + 1 :])
            self.ups.append(ConvTranspose1d(width >> i, channels, kernel, stride=rate, padding=(kernel - rate) // 2))
            size = 1 if stride == 1 else 2 * stride
            self.source_downs.append(
                Conv1d(bins, channels, size, stride=stride, padding=stride // 2 if size > 1 else 0)
            )
            self.source_resblocks.append(HiFTResBlock(channels, config.source_kernels[i], config.resblock_dilations))
            self.resblocks += [HiFTResBlock(channels, k, config.resblock_dilations) for k in config.resblock_kernels]
        self.conv_post = Conv1d(width >> len(config.rates), bins, 7, padding=3)
        self._stft = Stft(config.n_fft, config.hop)
        # From the frames of a mel; the last stage has one row more.
        rows = [math.prod(config.rates[: i + 1]) for i in range(len(config.rates))]
        self._multiples = mx.array([self.samples_per_frame, *rows], dtype=mx.int32)[:, None, None]
        self._more = mx.array([0] * len(rows) + [1], dtype=mx.int32)[:, None, None]
        mx.eval(self._multiples, self._more)
        self._excite = [MeanOfBlocks([block]) for block in self.source_resblocks]
        each = len(config.resblock_kernels)
        self._stages = [MeanOfBlocks(self.resblocks[each * i : each * (i + 1)]) for i in range(len(self.ups))]

    def multiply_in_bfloat16(self) -> None:
        """Multiply in bfloat16 within the residual blocks and between them, on a CPU that has such products.

        An NVIDIA GPU multiplies in float16 within the blocks. Call it before `lower`. All else stays in float32, and so
        do the pitch and the spectrum at both ends.
        """
        blocks = [conv for block in (*self.source_resblocks, *self.resblocks) for conv in block.convs1 + block.convs2]
        for conv in (*self.ups, *blocks):
            conv.bfloat16 = True

    def lower(self) -> None:
        """Bring all weights into this device's order. Once, after loading."""
        for _, module in self.named_modules():
            if isinstance(module, (Conv1d, ConvTranspose1d, HiFTResBlock)):
                module.lower()
        for mean in (*self._excite, *self._stages):
            mean.lower()

    @property
    def uses_kernels(self) -> bool:
        """True if a GPU's kernels compute all residual blocks."""
        return all(mean.uses_kernels for mean in (*self._excite, *self._stages))

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
        f0 = self.f0_predictor(mel, PaddingMask.of(count, mel.shape[1]))
        known = 0 if source is None else source.shape[1] // self.samples_per_frame
        made, after = self.m_source(f0[:, known:], phases, noise, turns)
        if source is not None:
            made = mx.concatenate([source, made], axis=1)
        return self.decode(mel, made, count), made, after

    def decode(self, mel: mx.array, source: mx.array, count: mx.array | None = None) -> mx.array:
        """Samples [1, F * samples_per_frame] from mel [1, F, mels] and excitation; `count` [1, 1, 1] valid frames."""
        counts: list[mx.array | None] = [None] * self._more.size
        if count is not None:  # the valid samples, then the valid rows of each stage, each [1, 1, 1]
            counts = list(mx.split(count * self._multiples + self._more, self._more.size))
        samples = None if counts[0] is None else counts[0][:, :, 0]
        with mx.stream(cpu_streams()[-1]):  # beside the mel's first layers
            spectrum = self._stft.spectrum(source, samples)
        spectrum = PaddingMask.of(counts[-1], spectrum.shape[1]).zero(spectrum)
        valid = PaddingMask.of(count, mel.shape[1])
        x = valid.zero(leaky_relu(self.conv_pre(valid.zero(mel)), SLOPE))
        for i, up in enumerate(self.ups):
            last = i + 1 == len(self.ups)
            x = up(x)
            if last:
                x = reflect_left(x)
            valid = PaddingMask.of(counts[1 + i], x.shape[1])
            excited = self.source_downs[i](spectrum)
            x = self._excite[i](excited, valid, onto=x)
            x = self._stages[i](x, valid, LAST_SLOPE if last else SLOPE)
        y = self._stft.head(self.conv_post(x), valid.mask, samples, most=MAX_MAGNITUDE)
        return mx.clip(y, -MAX_AMPLITUDE, MAX_AMPLITUDE)


class Vocoder:
    """The network with its shape buckets.

    On a GPU the frames are padded to buckets, since each new shape costs kernels there; the results equal the unpadded
    ones. On the CPU nothing is padded, unless `padded` says so.
    """

    def __init__(self, network: HiFT, *, padded: bool | None = None) -> None:
        self.network = network
        self.samples_per_frame, self.harmonics = network.samples_per_frame, network.harmonics
        self._padded = not on_cpu() if padded is None else padded
        # Only its inner functions are compiled: the whole would make 38 kernels instead of 9, each of seconds.
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
        more = [(0, 0), (0, bucket(frames, FRAME_BUCKETS) - frames), (0, 0)]
        count = mx.array([frames])
        pcm, source, turns = self._run(mx.pad(mel, more), phases, mx.pad(noise, more), count, source, turns)
        samples = frames * self.samples_per_frame
        return Spoken(pcm[:, :samples], source[:, :samples], turns[:, : noise.shape[1] + 1])

    def warm(self, frames: int, known: int = 0) -> None:
        """Run the shape of `frames`, of which `known` are carried, and so build its kernels."""
        size = self.samples_per_frame
        turns = mx.zeros((1, 1), dtype=mx.uint32)
        carried = Carried(mx.zeros((1, known * size)), turns) if known else None
        phases = mx.zeros((self.harmonics + 1,), dtype=mx.uint32)
        mel = mx.zeros((1, frames, self.network.mels))
        mx.eval(self(mel, phases, mx.zeros((1, frames - known, size)), carried).pcm)
