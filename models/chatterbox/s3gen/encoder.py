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

from mlx import nn

from models.backend import mx
from models.chatterbox.config import EncoderConfig
from models.chatterbox.s3gen.relative_attention import RelativeAttention
from models.layers.activation import leaky_relu, silu
from models.layers.conv import Conv1d, PaddingMask
from models.layers.linear import Linear
from models.layers.norm import layer_norm

FIRST_REACH = 256  # tokens for which positions are prepared at least
_LAYER_EPS = 1e-12  # of the layers' norms; the others have 1e-5


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


class LinearNoSubsampling(nn.Module):
    """Linear layer, LayerNorm, and a factor of sqrt(width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self._scale = math.sqrt(width)

    def __call__(self, x: mx.array) -> mx.array:
        return layer_norm(self.linear(x), self.norm.weight, self.norm.bias) * self._scale


class UpsampleConformerEncoder(nn.Module):
    """Token ids [B, T] to features of frames [B, 2T, mels].

    `input_embedding` [tokens, C] and `embed` act on each token alone: `lower` makes one table of them.
    """

    def __init__(self, config: EncoderConfig, tokens: int, mels: int) -> None:
        super().__init__()
        width = config.width
        self.input_embedding = mx.zeros((tokens, width))
        self.embed = LinearNoSubsampling(width)
        self.pre_lookahead_layer = PreLookahead(width, config.lookahead)
        self.encoders = [ConformerLayer(config) for _ in range(config.layers)]
        self.up_layer = Upsample(width)
        self.up_embed = LinearNoSubsampling(width)
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
