"""Conditioning of T3 on a voice: rows of embeddings before the text.

Llama: the speaker's vector, 32 rows that a Perceiver (arXiv:2103.03206) makes of the recording's speech tokens, and the
emotion. GPT-2: the speaker's vector and the tokens themselves.
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3.backbone import Table
from models.layers.linear import Projection


class PerceiverAttention(nn.Module):
    """Attention of x [1, n, C] to `context` [1, m, C], added to x.

    Queries, keys and values pass the same LayerNorm; x itself is added without it.
    """

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.perceiver_heads
        self.norm = nn.LayerNorm(config.hidden)
        self.to_q = Projection(config.hidden, config.hidden)
        self.to_kv = Projection(config.hidden, 2 * config.hidden)
        self.proj_out = Projection(config.hidden, config.hidden)

    def __call__(self, x: mx.array, context: mx.array) -> mx.array:
        batch, length, width = x.shape
        size = width // self.heads
        q = self.to_q(self.norm(x)).reshape(batch, length, self.heads, size).transpose(0, 2, 1, 3)
        kv = self.to_kv(self.norm(context)).reshape(batch, context.shape[1], 2 * self.heads, size)
        kv = kv.transpose(0, 2, 1, 3)
        y = mx.fast.scaled_dot_product_attention(q, kv[:, : self.heads], kv[:, self.heads :], scale=size**-0.5)
        return x + self.proj_out(y.transpose(0, 2, 1, 3).reshape(batch, length, width))


class Perceiver(nn.Module):
    """Learned queries attend to the prompt, then to themselves, through one and the same block."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.pre_attention_query = mx.zeros((1, config.perceiver_queries, config.hidden))
        self.attn = PerceiverAttention(config)

    def __call__(self, x: mx.array) -> mx.array:
        """x [1, P, C] -> [1, queries, C]."""
        x = self.attn(self.pre_attention_query, x)
        return self.attn(x, x)


class T3Conditioning(nn.Module):
    """Rows [1, n, C] of a speaker [256], an embedded prompt [1, P, C] and an exaggeration in [0, 2]."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.spkr_enc = Projection(config.speaker, config.hidden)
        if config.emotion:
            self.emotion_adv_fc = Table(config.hidden, 1)
        if config.perceiver:
            self.perceiver = Perceiver(config)
        self._perceives, self._feels = config.perceiver, config.emotion

    def __call__(self, speaker: mx.array, prompt: mx.array, exaggeration: float) -> mx.array:
        rows = [self.spkr_enc(speaker.reshape(1, 1, -1)), self.perceiver(prompt) if self._perceives else prompt]
        if self._feels:
            rows.append((exaggeration * self.emotion_adv_fc.weight.T)[None])
        return mx.concatenate(rows, axis=1)
