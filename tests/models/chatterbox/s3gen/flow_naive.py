"""S3Gen's encoder and estimator as plain formulas in double precision, on arrays of official names; slow and small.

Everything is [rows, channels], one sequence, convolutions row by row and attention head by head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.chatterbox.config import ChatterboxConfig
from models.chatterbox.s3gen.relative_attention import relative_positions

Array = npt.NDArray[np.float64]
_erf = np.vectorize(math.erf)


def _softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _mish(x: Array) -> Array:
    return x * np.tanh(np.logaddexp(x, 0))


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


class NaiveFlow:
    """The arrays of one part, and its layers by name."""

    def __init__(self, arrays: Mapping[str, mx.array], config: ChatterboxConfig) -> None:
        self._arrays = {name: np.array(array, np.float64) for name, array in arrays.items()}
        self.config = config

    def _at(self, name: str) -> Array:
        return self._arrays[f"flow.{name}"]

    def _linear(self, x: Array, name: str) -> Array:
        weight = self._at(f"{name}.weight")
        y = x @ weight.reshape(weight.shape[0], -1).T
        return y + self._at(f"{name}.bias") if f"flow.{name}.bias" in self._arrays else y

    def _norm(self, x: Array, name: str, eps: float = 1e-5) -> Array:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return y * self._at(f"{name}.weight") + self._at(f"{name}.bias")

    def _conv(self, x: Array, name: str, left: int, right: int = 0) -> Array:
        weight = self._at(f"{name}.weight")
        padded, taps = np.pad(x, ((left, right), (0, 0))), weight.shape[2]
        rows = [np.einsum("oik,ki->o", weight, padded[n : n + taps]) for n in range(len(padded) - taps + 1)]
        return np.stack(rows) + self._at(f"{name}.bias")

    def encode(self, tokens: list[int]) -> Array:
        """Tokens [T] -> mu [2T, mels]."""
        x = self._embed(self._at("input_embedding.weight")[tokens], "encoder.embed")
        ahead = self._conv(x, "encoder.pre_lookahead_layer.conv1", 0, 3)
        x = x + self._conv(np.where(ahead > 0, ahead, 0.01 * ahead), "encoder.pre_lookahead_layer.conv2", 2)
        for i in range(self.config.encoder.layers):
            x = self._conformer(x, f"encoder.encoders.{i}")
        x = self._embed(self._conv(np.repeat(x, 2, axis=0), "encoder.up_layer.conv", 4), "encoder.up_embed")
        for i in range(self.config.encoder.up_layers):
            x = self._conformer(x, f"encoder.up_encoders.{i}")
        return self._linear(self._norm(x, "encoder.after_norm"), "encoder_proj")

    def _embed(self, x: Array, name: str) -> Array:
        y = self._norm(self._linear(x, f"{name}.out.0"), f"{name}.out.1")
        return y * math.sqrt(self.config.encoder.width)

    def _conformer(self, x: Array, name: str) -> Array:
        heads, rows = self.config.encoder.heads, len(x)
        y = self._norm(x, f"{name}.norm_mha", 1e-12)
        q, k, v = (self._linear(y, f"{name}.self_attn.linear_{kind}") for kind in "qkv")
        p = self._linear(relative_positions(rows, x.shape[1]).astype(np.float64), f"{name}.self_attn.linear_pos")
        made = []
        for h, (qh, kh, vh, ph) in enumerate(zip(*(np.split(a, heads, axis=1) for a in (q, k, v, p)), strict=True)):
            far = (qh + self._at(f"{name}.self_attn.pos_bias_v")[h]) @ ph.T
            far = np.stack([far[i, rows - 1 - i : 2 * rows - 1 - i] for i in range(rows)])
            logits = (qh + self._at(f"{name}.self_attn.pos_bias_u")[h]) @ kh.T + far
            made.append(_softmax(logits / math.sqrt(qh.shape[1])) @ vh)
        x = x + self._linear(np.concatenate(made, axis=1), f"{name}.self_attn.linear_out")
        y = self._linear(self._norm(x, f"{name}.norm_ff", 1e-12), f"{name}.feed_forward.w_1")
        return x + self._linear(_silu(y), f"{name}.feed_forward.w_2")

    def slope(self, x: Array, mu: Array, speaker: Array, prompt: Array, time: Array) -> Array:
        """The estimator for x, mu and prompt [F, mels], speaker [mels] projected, and the time's vector [4 * width]."""
        name = "decoder.estimator"
        wide = np.concatenate([x, mu, np.broadcast_to(speaker, x.shape), prompt], axis=1)
        skip = self._stage(wide, f"{name}.down_blocks.0", time)
        y = self._conv(skip, f"{name}.down_blocks.0.2", 2)
        for i in range(self.config.flow.middle):
            y = self._stage(y, f"{name}.mid_blocks.{i}", time)
        y = self._stage(np.concatenate([y, skip], axis=1), f"{name}.up_blocks.0", time)
        y = self._block(self._conv(y, f"{name}.up_blocks.0.2", 2), f"{name}.final_block.block")
        return self._linear(y, f"{name}.final_proj")

    def time(self, start: float, end: float) -> Array:
        """A step's time as a vector; its end counts for a mean flow only."""
        name, both = "decoder.estimator", []
        half = 2 * self.config.mels
        for t in (start, end):
            phase = 1000.0 * t * np.exp(-math.log(10_000) / (half - 1) * np.arange(half))
            x = np.concatenate([np.sin(phase), np.cos(phase)])
            both.append(self._linear(_silu(self._linear(x, f"{name}.time_mlp.linear_1")), f"{name}.time_mlp.linear_2"))
        mixed = self.config.flow.mean_flow
        return self._linear(np.concatenate(both), f"{name}.time_embed_mixer") if mixed else both[0]

    def project(self, speaker: Array) -> Array:
        """A speaker's vector [size], of any length, to [mels]."""
        return self._linear(speaker / np.linalg.norm(speaker), "spk_embed_affine_layer")

    def _block(self, x: Array, name: str) -> Array:
        return _mish(self._norm(self._conv(x, f"{name}.0", 2), f"{name}.2"))

    def _stage(self, x: Array, name: str, time: Array) -> Array:
        y = self._block(x, f"{name}.0.block1.block") + self._linear(_mish(time), f"{name}.0.mlp.1")
        x = self._block(y, f"{name}.0.block2.block") + self._linear(x, f"{name}.0.res_conv")
        for i in range(self.config.flow.blocks):
            x = self._transformer(x, f"{name}.1.{i}")
        return x

    def _transformer(self, x: Array, name: str) -> Array:
        y, heads = self._norm(x, f"{name}.norm1"), self.config.flow.heads
        q, k, v = (np.split(self._linear(y, f"{name}.attn1.to_{kind}"), heads, axis=1) for kind in "qkv")
        made = [_softmax(a @ b.T / math.sqrt(a.shape[1])) @ c for a, b, c in zip(q, k, v, strict=True)]
        x = x + self._linear(np.concatenate(made, axis=1), f"{name}.attn1.to_out.0")
        y = self._linear(self._norm(x, f"{name}.norm3"), f"{name}.ff.net.0.proj")
        return x + self._linear(0.5 * y * (1 + _erf(y / math.sqrt(2))), f"{name}.ff.net.2")
