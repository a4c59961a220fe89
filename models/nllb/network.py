"""NLLB's network: a pre-norm Transformer encoder and decoder (M2M100, arXiv:2010.11125), tied embeddings.

Attribute names follow this project's layers; `weights` renames the official ones. Arrays are [batch, length, channels].
The decoder writes into keys and values allocated once for a whole translation, [B, 2 * heads, T, size] a layer (keys,
then values), so that every step has the same shapes.
"""

from __future__ import annotations

import math

from mlx import nn

from models.backend import mx
from models.layers import int8
from models.layers.kernels.cuda import available
from models.layers.position import sinusoids
from models.layers.projection import Projection
from models.nllb.config import NllbConfig
from models.nllb.kernels import step
from models.nllb.vocabulary import Vocabulary

FIRST_POSITION = 2  # fairseq counts positions from the padding token's id on


def _heads(x: mx.array, count: int, heads: int) -> mx.array:
    """[B, T, count * C] -> [B, count * heads, T, C / heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, count * heads, width // (count * heads)).transpose(0, 2, 1, 3)


def _attend(q: mx.array, kv: mx.array, bias: mx.array) -> mx.array:
    """Softmax attention of q [B, H, T, C] to kv [B, 2H, S, C] -> [B, T, H * C]; `bias` is added to the logits."""
    batch, heads, length, size = q.shape
    y = mx.fast.scaled_dot_product_attention(q, kv[:, :heads], kv[:, heads:], scale=1 / math.sqrt(size), mask=bias)
    return y.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


class FeedForward(nn.Module):
    """Two layers with ReLU between."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1 = Projection(width, inner)
        self.fc2 = Projection(inner, width)

    def __call__(self, x: mx.array) -> mx.array:
        return self.fc2(mx.maximum(self.fc1(x), 0))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each behind a LayerNorm and added to its input."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.heads = config.encoder_attention_heads
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.qkv = Projection(config.d_model, 3 * config.d_model)
        self.out = Projection(config.d_model, config.d_model)
        self.ffn_norm = nn.LayerNorm(config.d_model)
        self.ffn = FeedForward(config.d_model, config.encoder_ffn_dim)

    def fused(self, x: mx.array, normal: mx.array, bias: mx.array, after: nn.LayerNorm) -> tuple[mx.array, mx.array]:
        """The same with CUDA kernels between the products: x and its norm -> the layer's output and that in `after`."""
        y = step.mix(self.qkv(normal), bias, self.heads)
        x, normal = step.settle(x, self.out(y), self.ffn_norm)
        return step.settle(x, self.ffn(normal), after)

    def __call__(self, x: mx.array, bias: mx.array) -> mx.array:
        qkv = _heads(self.qkv(self.attention_norm(x)), 3, self.heads)
        x = x + self.out(_attend(qkv[:, : self.heads], qkv[:, self.heads :], bias))
        return x + self.ffn(self.ffn_norm(x))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, and feed-forward."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.heads = config.decoder_attention_heads
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.qkv = Projection(config.d_model, 3 * config.d_model)
        self.out = Projection(config.d_model, config.d_model)
        self.cross_norm = nn.LayerNorm(config.d_model)
        self.cross_q = Projection(config.d_model, config.d_model)
        self.cross_out = Projection(config.d_model, config.d_model)
        self.ffn_norm = nn.LayerNorm(config.d_model)
        self.ffn = FeedForward(config.d_model, config.decoder_ffn_dim)

    def few(
        self, x: mx.array, at: mx.array, past: mx.array, memory: mx.array, memory_bias: mx.array
    ) -> tuple[mx.array, mx.array]:
        """The same by CUDA kernels alone, for few rows; `at` is what `kernels.embed` made of `place`."""
        qkv = step.dense(x, self.qkv, norm=self.attention_norm)
        y, past = step.attend(qkv, past, at, self.heads)
        x = step.dense(y, self.out, add=x)
        y = step.recall(x, memory, memory_bias, self.heads, self.cross_norm, self.cross_q)
        x = step.dense(y, self.cross_out, add=x)
        y = step.dense(x, self.ffn.fc1, norm=self.ffn_norm, relu=True)
        return step.dense(y, self.ffn.fc2, add=x), past

    def many(
        self,
        x: mx.array,
        normal: mx.array,
        at: mx.array,
        past: mx.array,
        memory: mx.array,
        memory_bias: mx.array,
        after: nn.LayerNorm,
    ) -> tuple[mx.array, mx.array, mx.array]:
        """The same with CUDA kernels between the products; `normal` and `after` as in `EncoderLayer.fused`."""
        y, past = step.attend(self.qkv(normal), past, at, self.heads)
        x, normal = step.settle(x, self.out(y), self.cross_norm)
        y = step.recall(self.cross_q(normal), memory, memory_bias, self.heads, self.cross_norm)
        x, normal = step.settle(x, self.cross_out(y), self.ffn_norm)
        return *step.settle(x, self.ffn(normal), after), past

    def __call__(
        self, x: mx.array, place: mx.array, past: mx.array, bias: mx.array, memory: mx.array, memory_bias: mx.array
    ) -> tuple[mx.array, mx.array]:
        """x [B, n, C] at positions place [1], place + 1, ... -> the layer's output, and `past` with them written in."""
        qkv = _heads(self.qkv(self.attention_norm(x)), 3, self.heads)
        past = mx.slice_update(past, qkv[:, self.heads :], place, (2,))
        x = x + self.out(_attend(qkv[:, : self.heads], past, bias))
        q = _heads(self.cross_q(self.cross_norm(x)), 1, self.heads)
        x = x + self.cross_out(_attend(q, memory, memory_bias))
        return x + self.ffn(self.ffn_norm(x)), past


class Encoder(nn.Module):
    """Token embeddings [B, S, C] and the padding's bias [B, 1, 1, S] -> [B, S, C]."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.layers = [EncoderLayer(config) for _ in range(config.encoder_layers)]
        self.norm = nn.LayerNorm(config.d_model)

    def fused(self, x: mx.array, bias: mx.array) -> mx.array:
        """The same with CUDA kernels between the products."""
        following = [*(layer.attention_norm for layer in self.layers[1:]), self.norm]
        normal: mx.array = self.layers[0].attention_norm(x)
        for layer, after in zip(self.layers, following, strict=True):
            x, normal = layer.fused(x, normal, bias, after)
        return normal

    def __call__(self, x: mx.array, bias: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x, bias)
        result: mx.array = self.norm(x)
        return result


class Decoder(nn.Module):
    """All layers, and one product that makes every layer's cross-attention keys and values."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.heads = config.decoder_attention_heads
        self.layers = [DecoderLayer(config) for _ in range(config.decoder_layers)]
        self.memory = Projection(config.d_model, 2 * config.decoder_layers * config.d_model)
        self.norm = nn.LayerNorm(config.d_model)

    def memories(self, encoded: mx.array) -> list[mx.array]:
        """Encoder output [B, S, C] -> keys and values [B, 2 * heads, S, C / heads] of each layer."""
        wide = _heads(self.memory(encoded), 2 * len(self.layers), self.heads)
        if encoded.shape[0] == 1:  # one copy: its parts are whole
            wide = mx.contiguous(wide)
        return [mx.contiguous(part) for part in mx.split(wide, len(self.layers), axis=1)]

    def fused(
        self, x: mx.array, at: mx.array, past: list[mx.array], memory: list[mx.array], memory_bias: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """The same by CUDA kernels; more than a few rows are multiplied by BLAS."""
        written = []
        if step.rows(x) <= step.FEW:
            for layer, before, read in zip(self.layers, past, memory, strict=True):
                x, kept = layer.few(x, at, before, read, memory_bias)
                written.append(kept)
            return self.norm(x), written
        following = [*(layer.attention_norm for layer in self.layers[1:]), self.norm]
        normal: mx.array = self.layers[0].attention_norm(x)
        for layer, after, before, read in zip(self.layers, following, past, memory, strict=True):
            x, normal, kept = layer.many(x, normal, at, before, read, memory_bias, after)
            written.append(kept)
        return normal, written

    def __call__(
        self, x: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], memory_bias: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        rows = place + mx.arange(x.shape[1])
        bias = mx.where(mx.arange(past[0].shape[2]) <= rows[:, None], 0.0, float("-inf")).astype(x.dtype)
        written = []
        for layer, before, read in zip(self.layers, past, memory, strict=True):
            x, after = layer(x, place, before, bias, read, memory_bias)
            written.append(after)
        return self.norm(x), written


class Nllb(nn.Module):
    """The whole network. `search` runs encode once and advance a token at a time."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        positions = sinusoids(config.max_position_embeddings, config.d_model, FIRST_POSITION)
        self._positions = mx.array(positions)
        self.bits = 0
        sides = (config.decoder_attention_heads, config.decoder_ffn_dim), (config.encoder_attention_heads, 64)
        self.fused = available() and all(step.fits(config.d_model, *side) for side in sides)

    @property
    def dtype(self) -> mx.Dtype:
        """Type that activations have."""
        return self.encoder.norm.weight.dtype

    def lower(self, bits: int = 0) -> None:
        """Bring every product into the device's order, once, after loading; `bits` 8 or 4 quantizes the weights."""
        # With 8 bits on a CPU the embeddings stay whole: the likeliest token is found from a copy of 8 bits as it is.
        whole = bits == 8 and int8.library() is not None
        self.bits = 0 if whole else bits
        self._positions = self._positions.astype(self.dtype)
        mx.eval(self._positions)
        for _, module in self.named_modules():
            if isinstance(module, Projection):
                module.lower(bits)
            elif isinstance(module, Vocabulary):
                module.lower(self.bits)

    def encode(self, ids: mx.array, counts: mx.array) -> tuple[mx.array, mx.array]:
        """ids [B, S], of which the first counts [B] of each row are real -> [B, S, C] and the bias [B, 1, 1, S]."""
        bias = mx.where(mx.arange(ids.shape[1]) < counts[:, None], 0.0, float("-inf")).astype(self.dtype)[:, None, None]
        x = self.vocabulary.embed(ids) + self._positions[: ids.shape[1]]
        fused = self.fused and step.mixes(ids.shape[1])
        return self.encoder.fused(x, bias) if fused else self.encoder(x, bias), bias

    def allocate(self, batch: int, length: int) -> list[mx.array]:
        """Room for the keys and values of `length` decoded tokens: zeros [batch, 2 * heads, length, size] a layer."""
        heads = self.config.decoder_attention_heads
        shape = (batch, 2 * heads, length, self.config.d_model // heads)
        if self.fused:  # the kernels copy what they are given: all layers may start from the same
            return [mx.zeros(shape, dtype=self.dtype)] * len(self.decoder.layers)
        return [mx.zeros(shape, dtype=self.dtype) for _ in self.decoder.layers]

    def advance(
        self, ids: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], memory_bias: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """Decode ids [B, n] at positions place [1] on -> the last layer's output [B, n, C] and the new `past`."""
        if self.fused:
            x, at = self.vocabulary.placed(ids, place, self._positions)
            return self.decoder.fused(x, at, past, memory, memory_bias)
        positions = mx.take(self._positions, place + mx.arange(ids.shape[1]), axis=0)
        return self.decoder(self.vocabulary.embed(ids) + positions, place, past, memory, memory_bias)
