"""Whisper's network: convolutions and a pre-norm Transformer encoder over log-mel frames, and a decoder of text.

Attributes have the names of openai-whisper's parameters, but `mlp1` and `mlp2` for `mlp.0` and `mlp.2`; `lower` then
joins projections of the same input. Arrays are [batch, length, channels]. The encoder takes any even number of frames
up to the configuration's window: positions that are not computed are not heard.

The decoder writes into keys and values allocated once for a whole window, [B, 2 * heads, T, size] a layer (keys, then
values). Several rows of the decoder, hypotheses or samples of one window, share the window's memory: they are queries
of one attention.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlx import nn

from models.backend import cpu_streams, mx
from models.layers import attention
from models.layers.activation import exact_gelu
from models.layers.attention import join_heads, split_heads
from models.layers.conv import Conv1d
from models.layers.linear import Part, Projection, multiply, row_parts
from models.native import kernels, transformer
from models.native.transformer import GROUP, Before, PackedMatrix
from models.whisper.config import WhisperConfig


def attend(q: mx.array, kv: mx.array, bias: mx.array | None = None) -> mx.array:
    """Softmax attention of q [B, H, T, C] to kv [B, 2H, S, C] -> [B, T, H * C]; `bias` is added to the logits."""
    heads = q.shape[1]
    return join_heads(attention.attend(q, kv[:, :heads], kv[:, heads:], 1 / math.sqrt(q.shape[-1]), bias))


class MultiHeadAttention(nn.Module):
    """Projections of an attention from C to C channels. Keys have no bias: theirs stays zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (Projection(width, width) for _ in range(4))

    def join_inputs(self) -> None:
        """Replace queries, keys and values, of one input each, by one projection `qkv`."""
        self.qkv = Projection.join([self.pop(name) for name in ("query", "key", "value")])


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward, each behind a LayerNorm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attn = MultiHeadAttention(width)
        self.attn_ln = nn.LayerNorm(width)
        self.mlp1, self.mlp2 = Projection(width, 4 * width), Projection(4 * width, width)
        self.mlp_ln = nn.LayerNorm(width)

    def __call__(self, x: mx.array) -> mx.array:
        """x [B, S, C] -> [B, S, C]."""
        qkv = self.attn.qkv.after(x, norm=self.attn_ln)
        if transformer.fits(qkv):
            y = transformer.attend(qkv, None, None, self.heads)
        else:
            split = split_heads(qkv, 3, self.heads)
            y = attend(split[:, : self.heads], split[:, self.heads :])
        return self.feed_forward(self.attn.out.after(y, add=x))

    def feed_forward(self, x: mx.array) -> mx.array:
        """Add the feed-forward part to x [B, S, C]."""
        wide = self.mlp1.after(x, norm=self.mlp_ln)
        return self.mlp2.after(wide, before=Before.EXACT_GELU, add=x)


class DecoderBlock(EncoderBlock):
    """Causal self-attention, attention to the encoder's output, and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.cross_attn = MultiHeadAttention(width)
        self.cross_attn_ln = nn.LayerNorm(width)

    def attend_past(
        self, x: mx.array, place: mx.array, past: mx.array, bias: mx.array | None
    ) -> tuple[mx.array, mx.array]:
        """Add causal self-attention to x [R, n, C]; arguments and the new `past` as in `Decoder.__call__`."""
        qkv = self.attn.qkv.after(x, norm=self.attn_ln)
        if transformer.fits(qkv):
            y, past = transformer.step_attend(qkv, past, place, self.heads)
        else:
            split = split_heads(qkv, 3, self.heads)
            past = mx.slice_update(past, split[:, self.heads :], place, (2,))
            y = attend(split[:, : self.heads], past, bias)
        return self.attn.out.after(y, add=x), past

    def cross_query(self, x: mx.array) -> mx.array:
        """Return the queries [R, n, C] to the encoder's output."""
        return self.cross_attn.query.after(x, norm=self.cross_attn_ln)

    def attend_memory(self, x: mx.array, q: mx.array, memory: mx.array) -> mx.array:
        """Add attention of q [R, n, C] to memory [B, 2 * heads, S, size], R / B rows of each, to x; feed forward."""
        rows = q.reshape(memory.shape[0], -1, q.shape[-1])
        if transformer.fits(rows):
            y = transformer.attend(rows, memory, None, self.heads)
        else:
            y = attend(split_heads(rows, 1, self.heads), memory)
        return self.feed_forward(self.cross_attn.out.after(y.reshape(q.shape), add=x))


class AudioEncoder(nn.Module):
    """Log-mel frames [B, 2 * S, mels] -> [B, S, C]."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.n_audio_state
        self.conv1 = Conv1d(config.n_mels, width, 3, padding=1)
        self.conv2 = Conv1d(width, width, 3, stride=2, padding=1)
        self.positional_embedding = mx.zeros((config.n_audio_ctx, width))
        self.blocks = [EncoderBlock(width, config.n_audio_head) for _ in range(config.n_audio_layer)]
        self.ln_post = nn.LayerNorm(width)

    def embed(self, mel: mx.array) -> mx.array:
        """Return the input [B, S, C] of the first block."""
        x = mel.astype(self.ln_post.weight.dtype)
        for conv in (self.conv1, self.conv2):
            x = exact_gelu(conv(x))
        return x + self.positional_embedding[: x.shape[1]]

    def __call__(self, mel: mx.array) -> mx.array:
        x = self.embed(mel)
        for block in self.blocks:
            x = block(x)
        result: mx.array = self.ln_post(x)
        return result


class TokenEmbedding(nn.Module):
    """Embedding table `weight` [V, C] and, tied to it, the output projection. Call `lower()` once after loading."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.weight = mx.zeros((size, width))
        self._parts: list[Part] = []
        self._bits = 0
        self._native: PackedMatrix | None = None

    def lower(self, bits: int = 0) -> None:
        """Round to `bits` (0 leaves the weights as they are). `weight` is empty where native kernels have them."""
        self._native = PackedMatrix.pack(self.weight, bits=bits)
        if self._native is not None:
            self.weight = mx.zeros((0, self._native.inputs))
            return
        self._bits = bits
        self._parts = row_parts(self.weight, bits)
        mx.eval(self._parts)
        if bits:
            self.weight = self._parts[0][0]

    @property
    def part(self) -> Part:
        """Return the table in one piece, as on a GPU."""
        (part,) = self._parts
        return part

    def embed(self, ids: mx.array) -> mx.array:
        """Return the embeddings [B, T, C] of ids [B, T]."""
        if self._native is not None:
            return self._native.rows(ids)
        if self._bits:
            whole = [mx.concatenate(list(pieces)) for pieces in zip(*self._parts, strict=True)]
            weight, scales, offsets = (part[ids] for part in whole)
            return mx.dequantize(weight, scales, offsets, group_size=GROUP, bits=self._bits)
        return self.weight[ids]

    def logits(self, x: mx.array) -> mx.array:
        """Return the products [..., V] of x [..., C] with all tokens, in float32."""
        if self._native is not None:
            return self._native(x)
        if not self._parts:
            return (x @ self.weight.T).astype(mx.float32)
        outputs = []
        for part, stream in zip(self._parts, cpu_streams(), strict=False):
            with mx.stream(stream):
                outputs.append(multiply(x, part, self._bits))
        whole = outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=-1)
        return whole.astype(mx.float32)


class TextDecoder(nn.Module):
    """Tokens and the encoder's output to hidden states; `token_embedding.logits` makes scores of them."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.n_text_state
        self.heads = config.n_text_head
        self.token_embedding = TokenEmbedding(config.n_vocab, width)
        self.positional_embedding = mx.zeros((config.n_text_ctx, width))
        self.blocks = [DecoderBlock(width, config.n_text_head) for _ in range(config.n_text_layer)]
        self.ln = nn.LayerNorm(width)

    def join_memory(self) -> None:
        """Replace every layer's projections of the encoder's output by one, `memory_proj`."""
        parts = [block.cross_attn.pop(name) for block in self.blocks for name in ("key", "value")]
        self.memory_proj = Projection.join(parts)

    def memories(self, encoded: mx.array) -> list[mx.array]:
        """Encoder output [B, S, C] -> keys and values [B, 2 * heads, S, size] of each layer."""
        rows = self.memory_proj(encoded)
        if transformer.fits(rows):
            return list(transformer.to_heads(rows, len(self.blocks), encoded.shape[-1] // self.heads))
        wide = split_heads(rows, 2 * len(self.blocks), self.heads)
        return [mx.contiguous(part) for part in mx.split(wide, len(self.blocks), axis=1)]

    def __call__(
        self, ids: mx.array, place: mx.array, past: Sequence[mx.array], memory: Sequence[mx.array]
    ) -> tuple[mx.array, list[mx.array]]:
        """Decode ids [R, n] at positions place [1] on, for memory of B windows, R a multiple of B.

        Returns hidden states [R, n, C], and `past` [R, 2 * heads, T, size] a layer with the new keys and values in it.
        """
        x, bias = self._embed(ids, place, past[0])
        written = []
        for block, before, read in zip(self.blocks, past, memory, strict=True):
            x, after = block.attend_past(x, place, before, bias)
            x = block.attend_memory(x, block.cross_query(x), read)
            written.append(after)
        return self.ln(x), written

    def align(
        self, ids: mx.array, past: Sequence[mx.array], memory: Sequence[mx.array], heads: Sequence[tuple[int, int]]
    ) -> tuple[mx.array, mx.array]:
        """Decode ids [1, n] from the first position on.

        Returns hidden states [1, n, C] and the logits [len(heads), n, S] of the cross-attention of `heads`, each a
        layer and a head of it.
        """
        place = mx.array([0])
        x, bias = self._embed(ids, place, past[0])
        found: dict[tuple[int, int], mx.array] = {}
        for number, (block, before, read) in enumerate(zip(self.blocks, past, memory, strict=True)):
            x, _ = block.attend_past(x, place, before, bias)
            q = block.cross_query(x)
            queries = split_heads(q, 1, self.heads)[0].astype(mx.float32) / math.sqrt(read.shape[-1])
            for layer, head in heads:
                if layer == number:
                    found[layer, head] = queries[head] @ read[0, head].astype(mx.float32).T
            x = block.attend_memory(x, q, read)
        return self.ln(x), mx.stack([found[head] for head in heads])

    def _embed(self, ids: mx.array, place: mx.array, past: mx.array) -> tuple[mx.array, mx.array | None]:
        """Return the embeddings of ids [R, n] with their positions, and the causal mask, where it is needed."""
        rows = place + mx.arange(ids.shape[1])
        x = self.token_embedding.embed(ids) + mx.take(self.positional_embedding, rows, axis=0)
        if transformer.fits(x):
            return x, None
        return x, mx.where(mx.arange(past.shape[2]) <= rows[:, None], 0.0, float("-inf")).astype(x.dtype)


class CtcHead(nn.Module):
    """Encoder output [B, S, C] -> CTC logits [B, S, n_ctc] in float32: text tokens, and the blank last."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(config.n_audio_state)
        self.out = Projection(config.n_audio_state, config.n_ctc)

    def __call__(self, encoded: mx.array) -> mx.array:
        return self.out.after(encoded, norm=self.ln).astype(mx.float32)


class Whisper(nn.Module):
    """Whole network: `encoder` once a window, `decoder` a token at a time, and `ctc` where the model has that head."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = AudioEncoder(config)
        self.decoder = TextDecoder(config)
        self.bits, self.rounded = 0, False
        self.ctc = CtcHead(config) if config.n_ctc else None

    @property
    def dtype(self) -> mx.Dtype:
        """Return the type of the activations."""
        return self.encoder.ln_post.weight.dtype

    def lower(self, bits: int = 0) -> None:
        """Bring every product into the device's order, once, after loading; `bits` 8 or 4 quantizes the weights."""
        native = kernels.available() and self.dtype == mx.float32
        self.rounded = bits != 0
        self.bits = 0 if native else bits  # of MLX's quantization
        self.decoder.token_embedding.lower(bits)  # the largest first: the memory of what it was serves the others
        for block in (*self.encoder.blocks, *self.decoder.blocks):
            block.attn.join_inputs()
        self.decoder.join_memory()
        for _, module in self.named_modules():
            if isinstance(module, Projection):
                module.lower(bits)
            elif isinstance(module, Conv1d):
                module.lower()
        mx.eval(self.parameters())

    def allocate(self, rows: int, length: int) -> list[mx.array]:
        """Return zeros [rows, 2 * heads, length, size] a layer for the keys and values of `length` tokens."""
        heads = self.config.n_text_head
        shape = (rows, 2 * heads, length, self.config.n_text_state // heads)
        return [mx.zeros(shape, dtype=self.dtype) for _ in self.decoder.blocks]
