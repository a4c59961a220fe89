"""The two Transformers that carry T3: Llama (arXiv:2302.13971, arXiv:2407.21783 for the rope) and GPT-2.

Queries, keys and values come from one product, as do the two halves of SwiGLU: a step of decoding costs what reading
the weights and starting the kernels costs. Attribute names are this project's; `weights` renames the official ones.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.chatterbox.config import T3Config
from models.chatterbox.t3.cache import Cache, Layer, attend, capacity, write
from models.layers.activation import gelu_tanh, silu
from models.layers.projection import Projection, multiply


class Matrix(Projection):
    """A Projection without bias: where launches are what costs, adding nothing costs as much as a product."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.pop("bias")

    def __call__(self, x: mx.array) -> mx.array:
        if not self._parts:
            return x @ self.weight.T
        outputs = []
        for part, lane in zip(self._parts, cpu_streams(), strict=False):
            with mx.stream(lane):
                outputs.append(multiply(x, part, self._bits))
        return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=-1)


def rope_wavelengths(config: T3Config) -> npt.NDArray[np.float32]:
    """Positions a radian, [head size / 2], of llama3's rope: what turns rarely within the original context is slowed.

    Formula: transformers, modeling_rope_utils, "llama3".
    """
    size = config.hidden // config.heads
    radian = config.rope_theta ** (np.arange(0, size, 2, dtype=np.float64) / size)
    turns = config.rope_original / (2 * math.pi * radian)
    kept = np.clip((turns - config.rope_low) / (config.rope_high - config.rope_low), 0, 1)
    return (radian / ((1 - kept) / config.rope_factor + kept)).astype(np.float32)


def _silu(x: mx.array) -> mx.array:
    """x sigmoid(x). The CPU's vector code takes a bias, for which a GPU would need a launch."""
    result: mx.array = silu(x, mx.zeros(1)) if on_cpu() else nn.silu(x)
    return result


def _heads(x: mx.array, count: int, heads: int) -> mx.array:
    """[B, n, count * C] -> [B, count * heads, n, C / heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, count * heads, width // (count * heads)).transpose(0, 2, 1, 3)


class LlamaLayer(nn.Module):
    """Attention with rope and SwiGLU, each behind an RMS norm and added to its input; no biases."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.RMSNorm(config.hidden, config.norm_eps)
        self.qkv = Matrix(config.hidden, 3 * config.hidden)
        self.out = Matrix(config.hidden, config.hidden)
        self.ffn_norm = nn.RMSNorm(config.hidden, config.norm_eps)
        self.gate_up = Matrix(config.hidden, 2 * config.inner)
        self.down = Matrix(config.inner, config.hidden)

    def __call__(
        self, x: mx.array, place: mx.array, wavelengths: mx.array, layer: Layer, bias: mx.array
    ) -> tuple[mx.array, Layer]:
        """x [B, n, C] at positions place [1] on -> the same, and the layer's keys and values with theirs written in."""
        qkv = _heads(self.qkv(self.attention_norm(x)), 3, self.heads)
        size = qkv.shape[-1]
        # Queries and keys turn alike: one call for both.
        turned = mx.fast.rope(
            qkv[:, : 2 * self.heads], size, traditional=False, base=None, scale=1.0, offset=place[0], freqs=wavelengths
        )
        kv = mx.concatenate([turned[:, self.heads :], qkv[:, 2 * self.heads :]], axis=1)
        layer = write(layer, kv, place)
        x = x + self.out(attend(turned[:, : self.heads], layer, bias))
        gate, up = mx.split(self.gate_up(self.ffn_norm(x)), 2, axis=-1)
        return x + self.down(_silu(gate) * up), layer


class Gpt2Layer(nn.Module):
    """Attention and a GELU (tanh) feed-forward, each behind a LayerNorm and added to its input."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(config.hidden, config.norm_eps)
        self.qkv = Projection(config.hidden, 3 * config.hidden)
        self.out = Projection(config.hidden, config.hidden)
        self.ffn_norm = nn.LayerNorm(config.hidden, config.norm_eps)
        self.up = Projection(config.hidden, config.inner)
        self.down = Projection(config.inner, config.hidden)

    def __call__(self, x: mx.array, place: mx.array, layer: Layer, bias: mx.array) -> tuple[mx.array, Layer]:
        """As LlamaLayer; positions are in x already."""
        qkv = _heads(self.qkv(self.attention_norm(x)), 3, self.heads)
        layer = write(layer, qkv[:, self.heads :], place)
        x = x + self.out(attend(qkv[:, : self.heads], layer, bias))
        return x + self.down(gelu_tanh(self.up(self.ffn_norm(x)))), layer


def _causal(place: mx.array, length: int, room: int, dtype: mx.Dtype) -> mx.array:
    """Bias [length, room]: each position sees itself and what is before it."""
    at = place + mx.arange(length)
    return mx.where(mx.arange(room) <= at[:, None], 0.0, float("-inf")).astype(dtype)


class Llama(nn.Module):
    """Embeddings [B, n, C] at positions place [1] on -> hidden states [B, n, C] after the last norm, and the cache."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.layers = [LlamaLayer(config) for _ in range(config.layers)]
        self.norm = nn.RMSNorm(config.hidden, config.norm_eps)
        self._wavelengths = mx.array(rope_wavelengths(config))

    def __call__(self, x: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        bias = _causal(place, x.shape[1], capacity(cache), x.dtype)
        written = []
        for layer, before in zip(self.layers, cache, strict=True):
            x, after = layer(x, place, self._wavelengths, before, bias)
            written.append(after)
        return self.norm(x), written


class Gpt2(nn.Module):
    """The same with a learned table of positions, [config.positions, C]."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.positions = mx.zeros((config.positions, config.hidden))
        self.layers = [Gpt2Layer(config) for _ in range(config.layers)]
        self.norm = nn.LayerNorm(config.hidden, config.norm_eps)

    def __call__(self, x: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        x = x + mx.take(self.positions, place + mx.arange(x.shape[1]), axis=0)
        bias = _causal(place, x.shape[1], capacity(cache), x.dtype)
        written = []
        for layer, before in zip(self.layers, cache, strict=True):
            x, after = layer(x, place, before, bias)
            written.append(after)
        return self.norm(x), written
