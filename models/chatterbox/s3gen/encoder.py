"""S3Gen's encoder: speech tokens, 25 a second, to features of mel frames, 50 a second.

A conformer without its convolution module, in two stacks with an upsampling between them. Relative positions as in
Transformer-XL (Dai et al. 2019, arXiv:1901.02860), in ESPnet's order. Reference: chatterbox 0.1.7,
models/s3gen/transformer/{upsample_encoder,encoder_layer,attention,embedding}.py. Arrays are channels-last, float32.

Attention looks both ways over the prompt and all speech: one more token changes every frame. Only two results stay
exact from one call to the next: those before the first attention (the embedded tokens, and the lookahead's output but
for its last three rows), and those that depend on no token (the projected positions, which this keeps).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.chatterbox.config import EncoderConfig
from models.layers.activation import leaky_relu, silu
from models.layers.attention import attend
from models.layers.conv import Conv1d, PaddingMask
from models.layers.linear import Linear
from models.layers.norm import layer_norm

FIRST_REACH = 256  # tokens for which positions are prepared at least
_LAYER_EPS = 1e-12  # of the layers' norms; the others have 1e-5


def relative_positions(reach: int, width: int) -> npt.NDArray[np.float32]:
    """Return rows [2 * reach - 1, width] for distances reach - 1, ..., 0, ..., 1 - reach: sine and cosine take turns.

    Frequencies are 10000^(-2i / width), in float32 as the checkpoints were trained.
    """
    steps = np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(10_000) / width)
    phase = np.arange(reach - 1, -reach, -1, dtype=np.float32)[:, None] * np.exp(steps)
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(2 * reach - 1, width)


class RelativeAttention(nn.Module):
    """Softmax((q + u) k^T + (q + v) p^T) with p the projected distance between query and key.

    `linear_pos` projects the positions. u and v, `pos_bias_u` and `pos_bias_v`, are [heads, size].
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linear_qkv = Linear(width, 3 * width)
        self.linear_out = Linear(width, width)
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = mx.zeros((heads, width // heads))
        self.pos_bias_v = mx.zeros((heads, width // heads))
        self._table = mx.zeros((heads, 0, width // heads))

    def reserve(self, reach: int) -> None:
        """Project the positions of up to `reach` rows, once."""
        weight = self.linear_pos.weight
        rows, size = 2 * reach - 1, weight.shape[0] // self.heads
        if self._table.shape[1] >= rows:
            return
        table = mx.array(relative_positions(reach, weight.shape[0])) @ weight.T
        self._table = mx.contiguous(table.reshape(rows, self.heads, size).transpose(1, 0, 2))
        mx.eval(self._table)

    def __call__(self, x: mx.array, bias: mx.array | None) -> mx.array:
        """x [B, T, C] -> [B, T, C]; `bias` [B, 1, 1, T] is minus infinity on padded keys, or None."""
        batch, length, width = x.shape
        size = width // self.heads
        middle = self._table.shape[1] // 2
        if middle < length - 1:
            raise ValueError(f"{length} rows, positions are reserved for {middle + 1}")
        near = self._table[:, middle - length + 1 : middle + length]
        q, k, v = self.linear_qkv(x).reshape(batch, length, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        parts = []
        streams = cpu_streams() if on_cpu() else cpu_streams()[:1]
        for index, stream in enumerate(streams):
            some = slice(self.heads * index // len(streams), self.heads * (index + 1) // len(streams))
            if some.start == some.stop:
                continue
            with mx.stream(stream):
                distances = (q[:, some] + self.pos_bias_v[some, None]) * size**-0.5 @ near[some].swapaxes(-1, -2)
                shifted = _shift(distances, length)
                shifted = shifted if bias is None else shifted + bias
                parts.append(
                    attend(q[:, some] + self.pos_bias_u[some, None], k[:, some], v[:, some], size**-0.5, shifted)
                )
        y = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=1)
        return self.linear_out(y.transpose(0, 2, 1, 3).reshape(batch, length, width))


def _shift(x: mx.array, length: int) -> mx.array:
    """Turn x [B, H, T, 2T - 1], by distance T - 1, ..., 1 - T, into [B, H, T, T], by key: a view."""
    batch, heads, _, columns = x.shape
    plane = length * columns
    strides = (heads * plane, plane, columns - 1, 1)
    return mx.as_strided(x, (batch, heads, length, length), strides, length - 1)


class FeedForward(nn.Module):
    """Two linear layers with SiLU between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.w_1 = Linear(width, inner)
        self.w_2 = Linear(inner, width)

    def __call__(self, x: mx.array) -> mx.array:
        return self.w_2(silu(self.w_1(x), mx.array(0.0)))


class ConformerLayer(nn.Module):
    """Self-attention and a feed-forward layer, each behind a LayerNorm and added to its input."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm_mha = nn.LayerNorm(config.width, eps=_LAYER_EPS)
        self.self_attn = RelativeAttention(config.width, config.heads)
        self.norm_ff = nn.LayerNorm(config.width, eps=_LAYER_EPS)
        self.feed_forward = FeedForward(config.width, config.inner)

    def __call__(self, x: mx.array, bias: mx.array | None) -> mx.array:
        x = x + self.self_attn(self.norm_mha(x), bias)
        return x + self.feed_forward(self.norm_ff(x))


class Upsample(nn.Module):
    """Repeat every row, then a causal convolution of five taps: [B, T, C] -> [B, 2T, C].

    Rows that are repeated share taps: row 2i sees rows i - 2, i - 1 and i through w0 + w1, w2 + w3 and w4, row 2i + 1
    through w0, w1 + w2 and w3 + w4. `conv` holds both, side by side, as three taps at the lower rate.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = Conv1d(width, 2 * width, 3, spread=True)

    @staticmethod
    def fold(weight: mx.array) -> mx.array:
        """Turn the reference's weight [O, 5, I] into `conv`'s, [2O, 3, I]."""
        w0, w1, w2, w3, w4 = (weight[:, k] for k in range(5))
        even, odd = mx.stack([w0 + w1, w2 + w3, w4], axis=1), mx.stack([w0, w1 + w2, w3 + w4], axis=1)
        return mx.concatenate([even, odd])

    def __call__(self, x: mx.array) -> mx.array:
        batch, length, width = x.shape
        y = self.conv.valid(x, 2, 0) + self.conv.bias
        return y.reshape(batch, 2 * length, width)


class PreLookahead(nn.Module):
    """Two convolutions by which each row hears the next `lookahead`; zeros follow the last."""

    def __init__(self, width: int, lookahead: int) -> None:
        super().__init__()
        self.conv1 = Conv1d(width, width, lookahead + 1, spread=True)
        self.conv2 = Conv1d(width, width, 3, spread=True)

    def __call__(self, x: mx.array) -> mx.array:
        """x [B, T, C] -> [B, T, C]."""
        y = leaky_relu(self.conv1.valid(x, 0, self.conv1.reach) + self.conv1.bias, 0.01)
        return x + self.conv2.valid(y, 2, 0) + self.conv2.bias


class LinearNorm(nn.Module):
    """Linear layer, LayerNorm, and a factor of sqrt(width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self._scale = math.sqrt(width)

    def __call__(self, x: mx.array) -> mx.array:
        return layer_norm(self.linear(x), self.norm.weight, self.norm.bias) * self._scale


class Encoder(nn.Module):
    """Token ids [B, T] to features of frames [B, 2T, mels].

    `input_embedding` [tokens, C] and `embed` act on each token alone: `lower` makes one table of them.
    """

    def __init__(self, config: EncoderConfig, tokens: int, mels: int) -> None:
        super().__init__()
        width = config.width
        self.input_embedding = mx.zeros((tokens, width))
        self.embed = LinearNorm(width)
        self.pre_lookahead_layer = PreLookahead(width, config.lookahead)
        self.encoders = [ConformerLayer(config) for _ in range(config.layers)]
        self.up_layer = Upsample(width)
        self.up_embed = LinearNorm(width)
        self.up_encoders = [ConformerLayer(config) for _ in range(config.up_layers)]
        self.after_norm = nn.LayerNorm(width)
        self.encoder_proj = Linear(width, mels)
        self.lookahead = config.lookahead

    def lower(self) -> None:
        """Fold the embedding, and bring every product into the device's order; once, after loading."""
        self.input_embedding = self.embed(self.input_embedding)
        mx.eval(self.input_embedding)
        for _, module in self.named_modules():
            if isinstance(module, (Linear, Conv1d)):
                module.lower()

    def reserve(self, tokens: int) -> None:
        """Prepare positions for `tokens` rows (and more: a power of two), outside of any compiled function."""
        reach = FIRST_REACH
        while reach < tokens:
            reach *= 2
        for layer in self.encoders:
            layer.self_attn.reserve(reach)
        for layer in self.up_encoders:
            layer.self_attn.reserve(2 * reach)

    def __call__(self, ids: mx.array, count: mx.array | None = None) -> mx.array:
        """Encode ids [B, T], of which the first count [B, 1, 1] are real (None: all), to [B, 2T, mels].

        Rows beyond the real ones change no other; their own results are meaningless. Call `reserve(T)` first.
        """
        valid = PaddingMask.of(count, ids.shape[1])
        x = self.pre_lookahead_layer(valid.zero(mx.take(self.input_embedding, ids, axis=0)))
        bias = _key_bias(valid)
        for layer in self.encoders:
            x = layer(x, bias)
        x = self.up_embed(self.up_layer(x))
        bias = _key_bias(valid.doubled(x.shape[1]))
        for layer in self.up_encoders:
            x = layer(x, bias)
        return self.encoder_proj(self.after_norm(x))


def _key_bias(valid: PaddingMask) -> mx.array | None:
    if valid.mask is None:
        return None
    return mx.where(valid.mask > 0, 0.0, float("-inf")).transpose(0, 2, 1)[:, None]
