"""iSTFTNet generator with a harmonic source: decoder features and F0 to a waveform.

Kaneko et al. 2022 (arXiv:2203.02395) over HiFi-GAN's residual blocks with AdaIN and Snake, as StyleTTS 2
(arXiv:2306.07691) uses it; reference: `kokoro/istftnet.py` of the `kokoro` package, whose parameter names are kept.

The residual blocks are computed in parts of the time axis (`models.layers.vocoder`), which meet only in AdaIN's
statistics; on an NVIDIA GPU by kernels for all blocks of a stage (`models.layers.residual_blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from mlx import nn

from models.backend import cpu_streams, mx
from models.kokoro.config import IstftNetConfig
from models.kokoro.source import InterpolatedSource
from models.layers import residual_blocks
from models.layers.activation import leaky_relu
from models.layers.adain import adain_fused, adain_kernel, adain_moments, adain_of_sum_kernel
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask, reflect_left
from models.layers.norm import AdaIN, Moments, StyleBank, affine_of, moments
from models.layers.vocoder import RowRange, SnakeConv, Stft, merge, split
from models.native import kernels


class AdaINResBlock(nn.Module):
    """Residual pairs of AdaIN, Snake and a convolution, the first of each pair dilated (`AdaINResBlock1`).

    The convolutions' biases: AdaIN removes that of the first of a pair. Those of the second add up to a constant,
    `bias()`, that no AdaIN within the block sees; the caller adds it once at the end.
    """

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...], style_dim: int) -> None:
        super().__init__()
        conv = partial(Conv1d, channels, channels, kernel)
        self.convs1 = [conv(dilation=d, padding=(kernel - 1) * d // 2) for d in dilations]
        self.convs2 = [conv(padding=(kernel - 1) // 2) for _ in dilations]
        self.adain1, self.adain2 = ([AdaIN(style_dim, channels) for _ in dilations] for _ in range(2))
        self.alpha1, self.alpha2 = ([mx.ones((channels,)) for _ in dilations] for _ in range(2))
        self._units1: list[SnakeConv] = []
        self._units2: list[SnakeConv] = []
        self._packed: kernels.PackedBlock | None = None

    def lower(self) -> None:
        """Prepare the native kernel, or activations and fast convolutions, once, after loading."""
        pairs = list(zip(self.convs1, self.convs2, self.alpha1, self.alpha2, strict=True))
        for conv in (*self.convs1, *self.convs2):
            conv.lower()
        self._packed = kernels.pack_block(
            [conv.packed for first, second, *_ in pairs for conv in (first, second)],
            [conv.dilation for conv in self.convs1],
            [alpha for *_, first, second in pairs for alpha in (first, second)],
        )
        if self._packed is not None:
            return
        self._units1 = [SnakeConv(conv, alpha) for conv, alpha in zip(self.convs1, self.alpha1, strict=True)]
        self._units2 = [SnakeConv(conv, alpha) for conv, alpha in zip(self.convs2, self.alpha2, strict=True)]

    @property
    def native(self) -> kernels.PackedBlock | None:
        """Return the block as the native kernel takes it, or None where it is not in use."""
        if self._packed is None:
            return None
        norms = [norm for pair in zip(self.adain1, self.adain2, strict=True) for norm in pair]
        return replace(self._packed, affines=tuple(norm.fc.start for norm in norms))

    @property
    def units(self) -> residual_blocks.Chain:
        """Each Snake with its convolution, lowered; none where the native kernel computes the block."""
        firsts = zip(self._units1, self.adain1, strict=False)
        seconds = zip(self._units2, self.adain2, strict=False)
        pairs = (unit for pair in zip(firsts, seconds, strict=True) for unit in pair)
        return [residual_blocks.Unit(unit.conv, unit.rate, unit.inverse, start=norm.fc.start) for unit, norm in pairs]

    def bias(self) -> mx.array:
        """Return the sum of the biases left out, [C]."""
        total = self.convs2[0].bias
        for conv in self.convs2[1:]:
            total = total + conv.bias
        return total

    def __call__(
        self, x: mx.array, styled: mx.array, valid: PaddingMask, partial: mx.array | None = None
    ) -> list[RowRange]:
        """Map x [B, L, C] and the style bank's result to the block's result, without `bias()`, in parts.

        `partial` are the moments of x for AdaIN's kernels, where several blocks share them.
        """
        if adain_fused(x.dtype):
            return split(self._fused(x, styled, valid, partial), 0, 1)
        parts = split(x, sum(conv.padding for conv in (*self.convs1, *self.convs2)))
        for k, (first, second) in enumerate(zip(self._units1, self._units2, strict=True)):
            inner = _apply(first, parts, self.adain1[k](styled), valid)
            parts = _apply(second, inner, self.adain2[k](styled), valid, onto=parts)
        return parts

    def _fused(self, x: mx.array, styled: mx.array, valid: PaddingMask, partial: mx.array | None) -> mx.array:
        """Compute `__call__` with kernels for AdaIN and Snake."""
        count, more = valid.number(x), None
        for k, (first, second) in enumerate(zip(self.convs1, self.convs2, strict=True)):
            affine, alpha = self.adain1[k](styled), self.alpha1[k]
            if more is None:
                inner = adain_kernel(x, affine, alpha, count, partial)
            else:
                inner, x = adain_of_sum_kernel(x, more, affine, alpha, count)
            inner = first.valid(inner, first.padding, first.padding)
            inner = adain_kernel(inner, self.adain2[k](styled), self.alpha2[k], count)
            more = second.valid(inner, second.padding, second.padding)
        return x if more is None else x + more


def _apply(
    unit: SnakeConv,
    parts: Sequence[RowRange],
    affine: mx.array,
    valid: PaddingMask,
    onto: Sequence[RowRange] | None = None,
) -> list[RowRange]:
    """Apply AdaIN by `affine` [B, 2C] over all parts, then Snake and the convolution of each, added to `onto`."""
    gamma, beta = mx.split(affine[:, None], 2, axis=-1)
    scale, shift = affine_of(_part_moments(parts, valid), gamma, beta)
    terms = unit.terms(shift, scale)
    done = []
    for k, part in enumerate(parts):
        with mx.stream(part.stream):
            done.append(unit(part, terms, valid.mask, None if onto is None else onto[k]))
    return done


def _part_moments(parts: Sequence[RowRange], valid: PaddingMask) -> list[Moments]:
    """Return moments of each part's own valid rows."""
    found = []
    for part in parts:
        with mx.stream(part.stream):
            mask, count = valid.mask, valid.count
            if mask is not None and len(parts) > 1:
                mask = mask[:, part.start : part.stop]
                count = mx.sum(mask, axis=1, keepdims=True)
            found.append(moments(part.own(), mask, count))
    return found


def mean_bias(blocks: Sequence[AdaINResBlock]) -> mx.array:
    """Return the mean of the blocks' biases, [C]."""
    mean: mx.array = sum((block.bias() for block in blocks[1:]), blocks[0].bias()) * (1 / len(blocks))
    return mean


def _by_kernels(
    prepared: residual_blocks.Prepared,
    x: mx.array,
    styled: mx.array,
    valid: PaddingMask,
    bias: mx.array,
    slope: float,
    onto: mx.array | None = None,
) -> mx.array:
    """Return `merge` of the results of `prepared` blocks for x [B, L, C], in the type of x."""
    single = partial(mx.array.astype, dtype=mx.float32)
    ending = residual_blocks.Ending(single(bias), slope, None if onto is None else single(onto))
    return residual_blocks.compute(prepared, single(x), valid.number(x), ending, single(styled)).astype(x.dtype)


def mean_of_blocks(
    blocks: Sequence[AdaINResBlock],
    bias: mx.array,
    x: mx.array,
    styled: mx.array,
    valid: PaddingMask,
    slope: float,
    prepared: residual_blocks.Prepared | None = None,
) -> Iterator[list[mx.array]]:
    """Compute LeakyReLU of the mean of the blocks' results for x [B, L, C], in pieces of work; the last is the mean.

    Args:
        blocks: All of one width.
        bias: Mean of their biases.
        x: [B, L, C].
        styled: Result of the style bank.
        valid: Mask of x.
        slope: Of LeakyReLU.
        prepared: The blocks for the kernels of a GPU that has them.
    """
    if prepared is not None:
        yield [_by_kernels(prepared, x, styled, valid, bias, slope)]
        return
    packed = [block.native for block in blocks]
    native = [block for block in packed if block is not None]
    if len(native) == len(blocks):
        for piece in kernels.mean_of_blocks(native, x, styled, valid.counts, bias, slope):
            yield [piece]
        return
    results, partial = [], adain_moments(x, valid.number(x)) if adain_fused(x.dtype) else None
    for block in blocks:
        results.append(block(x, styled, valid, partial))
        yield [part.rows for part in results[-1]]
    yield [merge(results, bias, slope, valid.mask)]


def _excited(
    block: AdaINResBlock,
    bias: mx.array,
    source: mx.array,
    x: mx.array,
    styled: mx.array,
    valid: PaddingMask,
    prepared: residual_blocks.Prepared | None = None,
) -> mx.array:
    """Return x [B, L, C] plus the block's result for `source` [B, L, C] and its bias; zero on padding.

    `styled` is the style bank's result, `prepared` the block for the kernels of a GPU that has them.
    """
    if prepared is not None:
        return _by_kernels(prepared, source, styled, valid, bias, 1.0, onto=x)
    source, native = valid.zero(source), block.native
    if native is not None:
        return kernels.res_block(native, source, styled, valid.counts, start=x, bias=bias)
    return merge([block(source, styled, valid)], bias, 1.0, valid.mask, onto=x)


def _valid(count: mx.array | None, x: mx.array) -> PaddingMask:
    """Return the mask of x [B, L, C] with `count` [B, 1] valid rows."""
    return PaddingMask.of(None if count is None else count[:, :, None], x.shape[1])


class Generator(nn.Module):
    """Features [B, T, C], style [B, S] and F0 [B, T] to samples [B, T * samples_per_step]; T counts half frames."""

    def __init__(self, config: IstftNetConfig, style_dim: int) -> None:
        super().__init__()
        channels, n_fft = config.upsample_initial_channel, config.gen_istft_n_fft
        self.m_source = InterpolatedSource(config.samples_per_step)
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
            self.noise_res.append(AdaINResBlock(width, last, (1, 3, 5), style_dim))
            sizes = zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True)
            self.resblocks += [AdaINResBlock(width, k, d, style_dim) for k, d in sizes]
        self.conv_post = Conv1d(channels >> len(stages), n_fft + 2, 7, padding=3)
        # A row's samples and its rows in each stage, from its half frames; the last stage has one more.
        rows = [math.prod(config.upsample_rates[: i + 1]) for i in range(len(stages))]
        self._multiples = mx.array([self.m_source.samples_per_step, *rows], dtype=mx.int32)[:, None, None]
        self._more = mx.array([0] * len(rows) + [1], dtype=mx.int32)[:, None, None]
        mx.eval(self._multiples, self._more)
        self._stft = Stft(n_fft, config.gen_istft_hop_size)
        self._prepared: list[tuple[residual_blocks.Prepared | None, residual_blocks.Prepared | None]] = [
            (None, None)
        ] * len(rows)
        self.bind_styles()

    def bind_styles(self) -> None:
        """Gather the style projections and the blocks' biases. Call it again when the weights change."""
        self._bank = StyleBank.of(self)
        each = [self._stage(i) for i in range(len(self.ups))]
        self._biases = [(one.bias(), mean_bias(blocks)) for one, blocks in zip(self.noise_res, each, strict=True)]
        mx.eval(self._biases)

    def prepare_kernels(self) -> None:
        """Bring the blocks' weights into the order of a GPU's kernels; once they are lowered, and styles bound."""
        width = self._bank.width
        self._prepared = [
            (self._kernels_of([one], width), self._kernels_of(self._stage(i), width))
            for i, one in enumerate(self.noise_res)
        ]

    @staticmethod
    def _kernels_of(blocks: Sequence[AdaINResBlock], width: int) -> residual_blocks.Prepared | None:
        def plain(x: mx.array, count: mx.array, styled: mx.array | None) -> list[mx.array]:
            assert styled is not None  # noqa: S101
            valid = PaddingMask.of(count[:, None, None], x.shape[1])
            return [part.rows for block in blocks for part in block(x, styled, valid)]

        return residual_blocks.prepare("the generator's kernels", [block.units for block in blocks], plain, width)

    def _stage(self, i: int) -> list[AdaINResBlock]:
        """Return the blocks of a stage, whose mean it takes."""
        parallel = len(self.resblocks) // len(self.ups)
        return self.resblocks[i * parallel : (i + 1) * parallel]

    def __call__(
        self, x: mx.array, style: mx.array, f0: mx.array, noise: mx.array, steps: mx.array | None = None
    ) -> mx.array:
        """Return samples [B, T * samples_per_step].

        Source, transforms and the exponential compute in float32, the rest in the type of x.

        Args:
            x: Decoder features [B, T, C]; T counts half frames.
            style: Style [B, S].
            f0: F0 in Hz [B, T].
            noise: Merged noise of the source [B, T * samples_per_step].
            steps: Valid half frames of each row [B, 1], or None where nothing is padded.
        """
        *_, (samples,) = self.pieces(x, style, f0, noise, steps)
        return samples

    def pieces(
        self, x: mx.array, style: mx.array, f0: mx.array, noise: mx.array, steps: mx.array | None = None
    ) -> Iterator[list[mx.array]]:
        """Compute `__call__` in pieces of work: yield the arrays that end each. The last holds the samples alone.

        A caller that evaluates each before it asks for the next can do other work in between.
        """
        styled = self._bank(style)
        counts: list[mx.array | None] = [None] * self._more.size
        if steps is not None:  # the valid samples, then the valid rows of each stage, each [B, 1]
            views = mx.split(steps[None] * self._multiples + self._more, self._more.size)
            counts = [each.reshape(steps.shape) for each in views]
        samples, *rows = counts
        with mx.stream(cpu_streams()[-1]):  # in parallel with the features, which do not need it
            harmonics = self._stft.analyze(self.m_source(f0, noise, steps), samples)
        harmonics = _valid(rows[-1], harmonics).zero(harmonics).astype(x.dtype)
        x = _valid(steps, x).zero(leaky_relu(x, 0.1))
        yield [x, harmonics]
        valid = PaddingMask()
        for i, up in enumerate(self.ups):
            last, blocks, (bias, mean) = i + 1 == len(self.ups), self._stage(i), self._biases[i]
            one, several = self._prepared[i]
            source = self.noise_convs[i](harmonics)
            valid = _valid(rows[i], source)
            x = up(x)
            if last:
                x = reflect_left(x)
            x = _excited(self.noise_res[i], bias, source, x, styled, valid, one)
            yield [x]
            for piece in mean_of_blocks(blocks, mean, x, styled, valid, 0.01 if last else 0.1, several):
                yield piece
            (x,) = piece
        yield [self._stft.head(self.conv_post(x).astype(mx.float32), valid.mask, samples)]
