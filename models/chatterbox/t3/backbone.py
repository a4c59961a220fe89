"""The two Transformers of T3: Llama (arXiv:2302.13971, arXiv:2407.21783 for the rope) and GPT-2.

One product makes queries, keys and values, and one the two halves of SwiGLU: reading the weights and starting the
kernels is all that a step of decoding costs. Parameters have the reference's names; see `weights` for the joined ones.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3.cache import Cache, Layer, attend, capacity, write
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


def _heads(x: mx.array, count: int, heads: int) -> mx.array:
    """Split into heads: [B, n, count * C] -> [B, count * heads, n, C / heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, count * heads, width // (count * heads)).transpose(0, 2, 1, 3)


class LlamaAttention(nn.Module):
    """Attention with rope; one product makes queries, keys and values."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv_proj = Matrix(config.hidden, 3 * config.hidden)
        self.o_proj = Matrix(config.hidden, config.hidden)

    def __call__(
        self, x: mx.array, norm: nn.RMSNorm, place: mx.array, wavelengths: mx.array, layer: Layer, bias: mx.array
    ) -> tuple[mx.array, Layer]:
        """Attend from norm(x) at positions place [1] on. Return x [B, n, C] plus the result, and the longer `layer`."""
        qkv = self.qkv_proj.after(x, norm=norm)
        if fits(qkv, layer):
            y, after = step_attend(qkv, layer[0], place, self.heads, wavelengths)
            return self.o_proj.after(y, add=x), (after,)
        qkv = _heads(qkv, 3, self.heads)
        size = qkv.shape[-1]
        # Queries and keys turn alike: one call for both.
        turned = mx.fast.rope(
            qkv[:, : 2 * self.heads], size, traditional=False, base=None, scale=1.0, offset=place[0], freqs=wavelengths
        )
        kv = mx.concatenate([turned[:, self.heads :], qkv[:, 2 * self.heads :]], axis=1)
        layer = write(layer, kv, place)
        return self.o_proj.after(attend(turned[:, : self.heads], layer, bias), add=x), layer


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

    def __call__(
        self, x: mx.array, place: mx.array, wavelengths: mx.array, layer: Layer, bias: mx.array
    ) -> tuple[mx.array, Layer]:
        """Run the layer; arguments as of LlamaAttention."""
        x, layer = self.self_attn(x, self.input_layernorm, place, wavelengths, layer, bias)
        return self.mlp(x, self.post_attention_layernorm), layer


class Gpt2Attention(nn.Module):
    """Attention; positions are in x already."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.c_attn = Projection(config.hidden, 3 * config.hidden)
        self.c_proj = Projection(config.hidden, config.hidden)

    def __call__(
        self, x: mx.array, norm: nn.LayerNorm, place: mx.array, layer: Layer, bias: mx.array
    ) -> tuple[mx.array, Layer]:
        """As LlamaAttention."""
        qkv = self.c_attn.after(x, norm=norm)
        if fits(qkv, layer):
            y, after = step_attend(qkv, layer[0], place, self.heads)
            return self.c_proj.after(y, add=x), (after,)
        qkv = _heads(qkv, 3, self.heads)
        layer = write(layer, qkv[:, self.heads :], place)
        return self.c_proj.after(attend(qkv[:, : self.heads], layer, bias), add=x), layer


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

    def __call__(self, x: mx.array, place: mx.array, layer: Layer, bias: mx.array) -> tuple[mx.array, Layer]:
        """Run the layer; arguments as of LlamaAttention."""
        x, layer = self.attn(x, self.ln_1, place, layer, bias)
        return self.mlp(x, self.ln_2), layer


def _causal(place: mx.array, length: int, room: int, dtype: mx.Dtype) -> mx.array:
    """Return the bias [length, room] by which each position sees itself and all before it."""
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
        self.wpe = Table(config.positions, config.hidden)
        self.h = [Gpt2Layer(config) for _ in range(config.layers)]
        self.ln_f = nn.LayerNorm(config.hidden, config.norm_eps)

    def __call__(self, x: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        x = x + mx.take(self.wpe.weight, place + mx.arange(x.shape[1]), axis=0)
        bias = _causal(place, x.shape[1], capacity(cache), x.dtype)
        written = []
        for layer, before in zip(self.h, cache, strict=True):
            x, after = layer(x, place, before, bias)
            written.append(after)
        return self.ln_f(x), written
