"""The two Transformers of T3: Llama (arXiv:2302.13971, arXiv:2407.21783 for the rope) and GPT-2.

One product makes queries, keys and values, and one the two halves of SwiGLU: reading the weights and starting the
kernels is all that a step of decoding costs. Parameters have the reference's names; see `weights` for the joined ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3.cache import Cache, Layer, capacity, write
from models.layers.attention import split_heads
from models.layers.linear import Projection, multiply
from models.native import transformer
from models.native.transformer import Before, step_attend


class Table(nn.Module):
    """Rows `weight` [count, width] to look up."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = mx.zeros((count, width))


class Matrix(Projection):
    """A Projection without bias: where launches are the cost, a sum with zeros costs as much as a product."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.pop("bias")

    def __call__(self, x: mx.array) -> mx.array:
        if self._native is not None:
            return self._native(x)
        if not self._parts:
            return x @ self.weight.T
        outputs = []
        for part, stream in zip(self._parts, cpu_streams(), strict=False):
            with mx.stream(stream):
                outputs.append(multiply(x, part, self._bits))
        return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=-1)


def rope_wavelengths(config: T3Config) -> npt.NDArray[np.float32]:
    """Return positions a radian, [head size / 2], of llama3's rope.

    It slows angles that turn rarely within the original context. Formula: transformers, modeling_rope_utils, "llama3".
    """
    size = config.hidden // config.heads
    radian = config.rope_theta ** (np.arange(0, size, 2, dtype=np.float64) / size)
    turns = config.rope_original / (2 * math.pi * radian)
    kept = np.clip((turns - config.rope_low) / (config.rope_high - config.rope_low), 0, 1)
    return (radian / ((1 - kept) / config.rope_factor + kept)).astype(np.float32)


def fits(qkv: mx.array, layer: Layer) -> bool:
    """Return whether the native kernels attend: new tokens qkv [B, n, 3C] and a cache of float32."""
    return len(layer) == 1 and transformer.fits(qkv)


def extend(
    qkv: mx.array, layer: Layer, place: mx.array, heads: int, wavelengths: mx.array | None = None
) -> tuple[mx.array, Layer]:
    """Split a layer's product into heads, and write its keys and values into the cache.

    Args:
        qkv: queries, keys and values of new tokens, [B, n, 3C].
        layer: the cache.
        place: int32 [1], the first token's position.
        heads: of the attention.
        wavelengths: of the rope that then turns queries and keys.

    Returns:
        The queries [B, heads, n, C / heads], and the longer `layer`.
    """
    qkv = split_heads(qkv, 3, heads)
    if wavelengths is None:
        return qkv[:, :heads], write(layer, qkv[:, heads:], place)
    # Queries and keys turn alike: one call for both.
    turned = mx.fast.rope(
        qkv[:, : 2 * heads],
        qkv.shape[-1],
        traditional=False,
        base=None,
        scale=1.0,
        offset=place[0],
        freqs=wavelengths,
    )
    kv = mx.concatenate([turned[:, heads:], qkv[:, 2 * heads :]], axis=1)
    return turned[:, :heads], write(layer, kv, place)


class ForwardPass(NamedTuple):
    """One pass over new tokens, the same for every layer.

    `place` [1] is the first token's position, `bias` [n, T] is added to the logits of attention, `attend` attends, and
    `wavelengths` are the rope's, if the network has one.
    """

    place: mx.array
    bias: mx.array
    attend: Attend
    wavelengths: mx.array | None = None


def attend(reading: ForwardPass, qkv: mx.array, layer: Layer, heads: int) -> tuple[mx.array, Layer]:
    """Return attention [B, n, C] of new tokens qkv [B, n, 3C] to a cache and themselves, and the longer `layer`."""
    if fits(qkv, layer):
        y, after = step_attend(qkv, layer[0], reading.place, heads, reading.wavelengths)
        return y, (after,)
    q, layer = extend(qkv, layer, reading.place, heads, reading.wavelengths)
    return caches.attend(q, layer, reading.bias), layer


Attend = Callable[[ForwardPass, mx.array, Layer, int], tuple[mx.array, Layer]]
"""`attend`, or a kernel for it."""


class LlamaAttention(nn.Module):
    """Attention with rope; one product makes queries, keys and values."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv_proj = Matrix(config.hidden, 3 * config.hidden)
        self.o_proj = Matrix(config.hidden, config.hidden)

    def __call__(self, x: mx.array, norm: nn.RMSNorm, layer: Layer, reading: ForwardPass) -> tuple[mx.array, Layer]:
        """Attend from norm(x). Return x [B, n, C] plus the result, and the longer `layer`."""
        y, layer = reading.attend(reading, self.qkv_proj.after(x, norm=norm), layer, self.heads)
        return self.o_proj.after(y, add=x), layer


class LlamaMlp(nn.Module):
    """SwiGLU; one product makes both halves."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.gate_up_proj = Matrix(config.hidden, 2 * config.inner)
        self.down_proj = Matrix(config.inner, config.hidden)

    def __call__(self, x: mx.array, norm: nn.RMSNorm) -> mx.array:
        """Return x plus the layer's result of norm(x)."""
        return self.down_proj.after(self.gate_up_proj.after(x, norm=norm), before=Before.SWIGLU, add=x)


class LlamaLayer(nn.Module):
    """Attention and SwiGLU, each behind an RMS norm and added to its input; no biases."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden, config.norm_eps)
        self.self_attn = LlamaAttention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, config.norm_eps)
        self.mlp = LlamaMlp(config)

    def __call__(self, x: mx.array, layer: Layer, reading: ForwardPass) -> tuple[mx.array, Layer]:
        """Run the layer; arguments as of LlamaAttention."""
        x, layer = self.self_attn(x, self.input_layernorm, layer, reading)
        return self.mlp(x, self.post_attention_layernorm), layer


class Gpt2Attention(nn.Module):
    """Attention; positions are in x already."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.c_attn = Projection(config.hidden, 3 * config.hidden)
        self.c_proj = Projection(config.hidden, config.hidden)

    def __call__(self, x: mx.array, norm: nn.LayerNorm, layer: Layer, reading: ForwardPass) -> tuple[mx.array, Layer]:
        """As LlamaAttention."""
        y, layer = reading.attend(reading, self.c_attn.after(x, norm=norm), layer, self.heads)
        return self.c_proj.after(y, add=x), layer


class Gpt2Mlp(nn.Module):
    """Feed-forward layer with GELU (tanh)."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.c_fc = Projection(config.hidden, config.inner)
        self.c_proj = Projection(config.inner, config.hidden)

    def __call__(self, x: mx.array, norm: nn.LayerNorm) -> mx.array:
        """Return x plus the layer's result of norm(x)."""
        return self.c_proj.after(self.c_fc.after(x, norm=norm), before=Before.GELU, add=x)


class Gpt2Layer(nn.Module):
    """Attention and a feed-forward layer, each behind a LayerNorm and added to its input."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.hidden, config.norm_eps)
        self.ln_2 = nn.LayerNorm(config.hidden, config.norm_eps)
        self.attn = Gpt2Attention(config)
        self.mlp = Gpt2Mlp(config)

    def __call__(self, x: mx.array, layer: Layer, reading: ForwardPass) -> tuple[mx.array, Layer]:
        """Run the layer; arguments as of LlamaAttention."""
        x, layer = self.attn(x, self.ln_1, layer, reading)
        return self.mlp(x, self.ln_2), layer


def causal(place: mx.array, length: int, room: int, dtype: mx.Dtype) -> mx.array:
    """Return the bias [length, room] by which each position sees itself and all before it."""
    at = place + mx.arange(length)
    return mx.where(mx.arange(room) <= at[:, None], 0.0, float("-inf")).astype(dtype)


class Llama(nn.Module):
    """Embeddings [B, n, C] at positions place [1] on -> hidden states [B, n, C] after the last norm, and the cache.

    The layers attend by `attend`, or by what replaces it.
    """

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.layers = [LlamaLayer(config) for _ in range(config.layers)]
        self.norm = nn.RMSNorm(config.hidden, config.norm_eps)
        self._wavelengths = mx.array(rope_wavelengths(config))

    def __call__(self, x: mx.array, place: mx.array, cache: Cache, attend: Attend = attend) -> tuple[mx.array, Cache]:
        bias = causal(place, x.shape[1], capacity(cache), x.dtype)
        reading, written = ForwardPass(place, bias, attend, self._wavelengths), []
        for layer, before in zip(self.layers, cache, strict=True):
            x, after = layer(x, before, reading)
            written.append(after)
        return self.norm(x), written


class Gpt2(nn.Module):
    """The same with a learned table of positions, [config.positions, C]."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.wpe = Table(config.positions, config.hidden)
        self.h = [Gpt2Layer(config) for _ in range(config.layers)]
        self.ln_f = nn.LayerNorm(config.hidden, config.norm_eps)

    def __call__(self, x: mx.array, place: mx.array, cache: Cache, attend: Attend = attend) -> tuple[mx.array, Cache]:
        x = x + mx.take(self.wpe.weight, place + mx.arange(x.shape[1]), axis=0)
        bias = causal(place, x.shape[1], capacity(cache), x.dtype)
        reading, written = ForwardPass(place, bias, attend), []
        for layer, before in zip(self.h, cache, strict=True):
            x, after = layer(x, before, reading)
            written.append(after)
        return self.ln_f(x), written
