"""Kokoro's network: text encoder, prosody predictor and decoder, beside PL-BERT (`albert`) and the `generator`.

`CompiledKokoro` holds its parts as functions of arrays alone, which a GPU compiles once per bucket.

Li et al. 2023 (StyleTTS 2, arXiv:2306.07691); reference: `kokoro/modules.py` and `kokoro/istftnet.py` of the `kokoro`
package. Attributes have the names of the reference's parameters. All arrays are channels-last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.kokoro import adain_kernels
from models.kokoro.adain_block import AdainResBlock
from models.kokoro.albert import Albert, AlbertEncoder
from models.kokoro.config import KokoroConfig
from models.kokoro.generator import AdaINResBlock, Generator
from models.layers.activation import leaky_relu
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask, with_zeros
from models.layers.linear import Linear
from models.layers.lstm import BiLSTM
from models.layers.norm import StyleAffine, StyleBank, layer_norm

_CHANNELS = 64  # a multiple of them suits the kernels of the decoder's blocks
_LAST_CHANNELS = 8  # and of these cuDNN, in float32 and in bfloat16


class TextEncoder(nn.Module):
    """Token ids [B, T] -> [B, T, hidden], for the decoder: convolutions with LayerNorm and LeakyReLU, then a BiLSTM."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, kernel = config.hidden_dim, config.text_encoder_kernel_size
        self.embedding = nn.Embedding(config.n_token, width)
        conv = partial(Conv1d, width, width, kernel, padding=(kernel - 1) // 2, spread=True)
        self.cnn = [[conv(), nn.LayerNorm(width)] for _ in range(config.text_encoder_layers)]
        self.lstm = BiLSTM(width, width // 2)

    def __call__(self, ids: mx.array, valid: PaddingMask) -> mx.array:
        x = valid.zero(self.embedding(ids))
        for conv, norm in self.cnn:
            x = valid.zero(leaky_relu(norm(conv(x)), 0.2))
        return self.lstm(x, valid)


class AdaLayerNorm(nn.Module):
    """LayerNorm of x [B, T, C] whose gain and offset the style gives."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.fc = StyleAffine(style_dim, channels)

    def __call__(self, x: mx.array, styled: mx.array) -> mx.array:
        gamma, beta = mx.split(self.fc(styled)[:, None], 2, axis=-1)
        return layer_norm(x, None, None) * (1 + gamma) + beta


class DurationEncoder(nn.Module):
    """BiLSTMs of x and the style with AdaLayerNorm between, in one list: [B, T, hidden] -> [B, T, hidden].

    Padding is not zero in the result: no LSTM reads it.
    """

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, style = config.hidden_dim, config.style_dim
        self.lstms: list[nn.Module] = []
        for _ in range(config.n_layer):
            self.lstms += [BiLSTM(width + style, width // 2, style=style), AdaLayerNorm(style, width)]

    def __call__(self, x: mx.array, styled: mx.array, valid: PaddingMask) -> mx.array:
        for lstm, norm in zip(self.lstms[::2], self.lstms[1::2], strict=True):
            x = norm(lstm(x, valid, styled), styled)
        return x


class LinearNorm(nn.Module):
    """Linear layer by the reference's name."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_layer = Linear(inputs, outputs)

    def __call__(self, x: mx.array) -> mx.array:
        return self.linear_layer(x)


class ProsodyPredictor(nn.Module):
    """Durations from encoded text; F0 and energy from its alignment."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, style = config.hidden_dim, config.style_dim
        self.text_encoder = DurationEncoder(config)
        self.lstm = BiLSTM(width + style, width // 2, style=style)
        self.duration_proj = LinearNorm(width, config.max_dur)
        self.shared = BiLSTM(width + style, width // 2, style=style)
        self.F0 = self._curve(width, style)
        self.N = self._curve(width, style)
        self.F0_proj = Linear(width // 2, 1)
        self.N_proj = Linear(width // 2, 1)
        self._kernels: adain_kernels.ChainPlan | None = None
        self.bind_styles()

    def bind_styles(self) -> None:
        """Gather the style projections, before the alignment and behind it. Call it again when the weights change."""
        self._duration_bank = StyleBank.of(self.text_encoder, self.lstm)
        self._bank = StyleBank.of(self.shared, *self.F0, *self.N)

    @staticmethod
    def _curve(width: int, style: int) -> list[AdainResBlock]:
        half = width // 2
        return [
            AdainResBlock(width, width, style),
            AdainResBlock(width, half, style, upsample=True),
            AdainResBlock(half, half, style),
        ]

    def durations(self, x: mx.array, style: mx.array, valid: PaddingMask) -> tuple[mx.array, mx.array]:
        """Map x [B, T, hidden] to encoding [B, T, hidden] and frames per token [B, T], not rounded."""
        styled = self._duration_bank(style)
        encoded = self.text_encoder(x, styled, valid)
        logits = self.duration_proj(self.lstm(encoded, valid, styled))
        return encoded, mx.sum(mx.sigmoid(logits), axis=-1)

    def curves(self, aligned: mx.array, style: mx.array, valid: PaddingMask) -> tuple[mx.array, mx.array]:
        """Map the aligned encoding [B, F, hidden] to F0 in Hz and energy, each [B, 2F]."""
        styled = self._bank(style)
        shared = self.shared(aligned, valid, styled)
        if self._kernels is None:
            found = self._plain(shared, styled, valid)
        else:
            found = adain_kernels.compute(self._kernels, shared, valid.number(shared), styled)
        f0, energy = (layer(x)[..., 0] for layer, x in zip((self.F0_proj, self.N_proj), found, strict=True))
        return f0, energy

    def prepare_kernels(self) -> None:
        """Bring the blocks' weights into the order of a GPU's kernels; once they are lowered, and styles bound."""
        levels = list(zip(self.F0, self.N, strict=True))
        self._kernels = adain_kernels.prepare(
            "the curves' kernels", levels, self._bank.width, lambda x, styled, valid, _: self._plain(x, styled, valid)
        )

    def _plain(self, shared: mx.array, styled: mx.array, valid: PaddingMask) -> list[mx.array]:
        """Return the results of both chains of blocks for x [B, F, hidden], each [B, 2F, hidden / 2]."""
        results = []
        for blocks in (self.F0, self.N):
            x, now = shared, valid
            for block in blocks:
                x = block(x, styled, now)
                if x.shape[1] != shared.shape[1]:
                    now = valid.doubled(x.shape[1])
            results.append(x)
        return results


class Decoder(nn.Module):
    """Aligned text features, F0 and energy to samples."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, style, residual = config.decoder_dim, config.style_dim, config.residual_dim
        final = config.istftnet.upsample_initial_channel
        joined = width + 2 + residual
        self.encode = AdainResBlock(config.hidden_dim + 2, width, style)
        self.decode = [AdainResBlock(joined, width, style) for _ in range(3)]
        self.decode.append(AdainResBlock(joined, final, style, upsample=True))
        self.F0_conv = Conv1d(1, 1, 3, stride=2, padding=1)
        self.N_conv = Conv1d(1, 1, 3, stride=2, padding=1)
        self.asr_res = [Conv1d(config.hidden_dim, residual, 1)]
        self.generator = Generator(config.istftnet, style)
        self._width, self._curves_at = width, residual
        self._marks: tuple[mx.array, mx.array] | None = None
        self._kernels: adain_kernels.ChainPlan | None = None
        self.bind_styles()

    def bind_styles(self) -> None:
        """Gather the style projections before the generator and in it. Call it again when the weights change."""
        self.generator.bind_styles()
        blocks = [self.encode, *self.decode]
        self._bank = StyleBank([norm.fc for block in blocks for norm in (block.norm1, block.norm2)])

    def widen(self) -> None:
        """Prepare the blocks for a GPU, once, before `lower`: each gives as many channels as the next one takes.

        The last of a block's channels are zero. The text's residual and the curves come there by a sum, which a GPU
        fuses, and no concatenation. cuDNN copies rows and weights whose number of channels is no multiple of four.
        """
        blocks, residual = [self.encode, *self.decode], self.asr_res[0]
        if self._marks is not None or not all("conv1x1" in block for block in blocks):
            return
        before, curves = self._width, self._width + self._curves_at
        total = -(-(curves + 2) // _CHANNELS) * _CHANNELS
        self.encode.widen(self.encode.conv1.weight.shape[2] - 2 + total - curves, total)
        for block in self.decode[:-1]:
            block.widen(total, total)
        self.decode[-1].widen(total, self.decode[-1].conv2.bias.size)
        residual.weight = with_zeros(mx.pad(residual.weight, [(before, 0), (0, 0), (0, 0)]), 0, total)
        residual.bias = with_zeros(mx.pad(residual.bias, (before, 0)), 0, total)
        last = self.generator.conv_post
        outputs = -(-last.bias.size // _LAST_CHANNELS) * _LAST_CHANNELS  # the head leaves the new ones out
        last.weight, last.bias = with_zeros(last.weight, 0, outputs), with_zeros(last.bias, 0, outputs)
        first, second = mx.eye(2, total, curves)
        mx.eval(first, second)
        self._curves_at, self._marks = curves, (first, second)

    @property
    def dtype(self) -> mx.Dtype:
        """Return the type that the decoder computes in."""
        return self.asr_res[0].bias.dtype

    def multiply_in_bfloat16(self) -> None:
        """Multiply in bfloat16 within the residual blocks and between them, on a CPU that has such products.

        Call it before `lower`. All else stays in float32, and so does the spectrum at both ends.
        """
        blocks = [module for _, module in self.named_modules() if isinstance(module, (AdainResBlock, AdaINResBlock))]
        for module in (*self.generator.ups, *(conv for block in blocks for _, conv in block.named_modules())):
            if isinstance(module, (Conv1d, ConvTranspose1d)):
                module.bfloat16 = True

    def to_bfloat16(self) -> None:
        """Compute in bfloat16 on a GPU, except for the harmonic source and its F0, whose phase needs float32."""
        keep = self.generator.m_source.parameters()
        self.set_dtype(mx.bfloat16)
        self.generator.m_source.update(keep)
        for _, module in self.named_modules():
            if isinstance(module, (Conv1d, ConvTranspose1d)):
                module.relower()
        self.bind_styles()

    def features(self, text: mx.array, f0: mx.array, energy: mx.array, style: mx.array, valid: PaddingMask) -> mx.array:
        """Return the generator's input [B, 2F, channels].

        `text` [B, F, hidden] is aligned; `f0` in Hz and `energy` are [B, 2F]; `style` [B, S].
        """
        text = text.astype(style.dtype)
        residual, styled = self.asr_res[0](text), self._bank(style)
        curves = [self.F0_conv(f0[..., None]), self.N_conv(energy[..., None])]
        if self._marks is None:
            tail = mx.concatenate([residual, *(curve.astype(style.dtype) for curve in curves)], axis=-1)
        else:
            tail = (residual + curves[0] * self._marks[0] + curves[1] * self._marks[1]).astype(style.dtype)
        x = mx.concatenate([text, tail[..., self._curves_at :]], axis=-1)
        if self._kernels is None:
            return self._plain(x, styled, valid, tail)
        (made,) = adain_kernels.compute(self._kernels, x, valid.number(x), styled, tail)
        return made.astype(style.dtype)

    def prepare_kernels(self) -> None:
        """Bring the blocks' weights into the order of a GPU's kernels; once they are widened, lowered and bound."""
        self.generator.prepare_kernels()
        if self._marks is not None:
            levels = [[block] for block in (self.encode, *self.decode)]
            self._kernels = adain_kernels.prepare(
                "the decoder's kernels",
                levels,
                self._bank.width,
                lambda *given: [self._plain(*given)],
                after=self.encode.conv2.bias.size,
            )

    def _plain(self, x: mx.array, styled: mx.array, valid: PaddingMask, tail: mx.array) -> mx.array:
        """Return the blocks' result for x [B, F, C], [B, 2F, channels]. Each but the first takes `tail`, too."""
        x = self.encode(x, styled, valid)
        for block in self.decode:
            x = block(mx.concatenate([x, tail], axis=-1) if self._marks is None else x + tail, styled, valid)
        return x


class Kokoro(nn.Module):
    """Whole network. `CompiledKokoro` gives its parts, which `pipeline` runs in order."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.bert = Albert(config.plbert, config.n_token)
        self.bert_encoder = Linear(config.plbert.hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = TextEncoder(config)
        self.decoder = Decoder(config)
        self.style_dim = config.style_dim

    def lower(self) -> None:
        """Bring every convolution and wide product into the device's order, once, after loading."""
        if not on_cpu():
            self.decoder.widen()
        lowered = (Conv1d, ConvTranspose1d, Linear, AlbertEncoder, BiLSTM, AdainResBlock, AdaINResBlock)
        for _, module in self.named_modules():
            if isinstance(module, lowered):
                module.lower()
        self.predictor.bind_styles()
        self.decoder.bind_styles()
        self.predictor.prepare_kernels()
        self.decoder.prepare_kernels()


class CompiledKokoro:
    """Parts of `network`, compiled on a GPU.

    A batch has one row per utterance, each of its own length. `count` is int32 [B], the valid tokens or frames of each
    row, or None where nothing is padded. Padding is masked out: a row's result is that of the utterance alone, within
    rounding.
    """

    def __init__(self, network: Kokoro) -> None:
        self.network = network
        wrap: Callable[[Any], Any] = (lambda f: f) if on_cpu() else mx.compile
        self.bert, self.durations = wrap(self._bert), wrap(self._durations)
        self.text, self.curves, self._whole = wrap(self._text), wrap(self._curves), wrap(self._audio)

    def _bert(self, ids: mx.array, count: mx.array | None) -> mx.array:
        """Map ids [B, T] to [B, T, hidden]."""
        hidden: mx.array = self.network.bert_encoder(self.network.bert(ids, _valid(count, ids)))
        return hidden

    def _durations(self, hidden: mx.array, styles: mx.array, count: mx.array | None) -> tuple[mx.array, mx.array]:
        """Map hidden [B, T, hidden] to encoding [B, T, hidden] and expected frames [B, T]."""
        return self.network.predictor.durations(hidden, _halves(styles)[1], _valid(count, hidden))

    def _text(self, ids: mx.array, count: mx.array | None) -> mx.array:
        """Map ids [B, T] to [B, T, hidden]."""
        with mx.stream(cpu_streams()[-1]):  # in parallel with PL-BERT, unless profiling waits for each
            return self.network.text_encoder(ids, _valid(count, ids))

    def _curves(self, aligned: mx.array, styles: mx.array, count: mx.array | None) -> tuple[mx.array, mx.array]:
        """Map the aligned encoding [B, F, hidden] to F0 and energy [B, 2F]."""
        return self.network.predictor.curves(aligned, _halves(styles)[1], _valid(count, aligned))

    def pieces(self, *given: Any) -> Iterator[list[mx.array]]:
        """Run decoder and generator (`_pieces`) in pieces of work. Each ends in arrays to evaluate, the last: samples.

        A GPU takes some milliseconds for all of it, and is faster with one compiled function: there it is one piece.
        """
        return self._pieces(*given) if on_cpu() else iter([[self._whole(*given)]])

    def _audio(self, *given: Any) -> mx.array:
        *_, (samples,) = self._pieces(*given)
        return samples

    def _pieces(
        self,
        text: mx.array,
        f0: mx.array,
        energy: mx.array,
        styles: mx.array,
        noise: mx.array,
        count: mx.array | None,
    ) -> Iterator[list[mx.array]]:
        """Compute samples [B, F * 600].

        Args:
            text: Aligned text features [B, F, hidden].
            f0: F0 in Hz [B, 2F].
            energy: Energy [B, 2F].
            styles: Styles [B, 2 * style_dim].
            noise: Merged noise [B, F * 600].
            count: Valid frames of each row.
        """
        decoder = self.network.decoder
        styled = _halves(styles)[0].astype(decoder.dtype)
        valid = _valid(count, text)
        x, double = decoder.features(text, f0, energy, styled, valid), valid.doubled(f0.shape[1]).count
        yield from decoder.generator.pieces(x, styled, f0, noise, None if double is None else double[:, :, 0])


def _halves(styles: mx.array) -> tuple[mx.array, mx.array]:
    first, second = mx.split(styles, 2, axis=-1)
    return first, second


def _valid(count: mx.array | None, x: mx.array) -> PaddingMask:
    return PaddingMask() if count is None else PaddingMask.of(count[:, None, None], x.shape[1])


def alignment(frames: Sequence[npt.NDArray[np.int64]], tokens: int, length: int) -> npt.NDArray[np.int32]:
    """Return the token of each frame [B, length], of rows of `tokens` each; the last token fills a row up."""
    index = np.zeros((len(frames), length), dtype=np.int32)
    for row, of_token in enumerate(frames):
        first, total = row * tokens, int(of_token.sum())
        index[row, :total] = np.repeat(np.arange(first, first + len(of_token)), of_token)
        index[row, total:] = first + len(of_token) - 1
    return index


def align(x: mx.array, index: mx.array) -> mx.array:
    """Repeat each token of x [B, T, C] for its frames, by their `alignment`: [B, length, C]."""
    return mx.take(x.reshape(-1, x.shape[-1]), index, axis=0)
