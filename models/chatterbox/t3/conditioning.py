"""What T3 knows of a voice before it reads the text: rows of embeddings put before it.

Llama: the speaker's vector, 32 rows that a Perceiver (arXiv:2103.03206) makes of the reference's speech tokens, and the
emotion. GPT-2: the speaker's vector and the tokens themselves.
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.chatterbox.config import T3Config
from models.layers.projection import Projection


class Perceiver(nn.Module):
    """Learned queries look at the prompt, then at themselves, through one and the same block.

    Queries, keys and values pass the same LayerNorm; the sum at the end is with what was not normalized.
    """

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.heads = config.perceiver_heads
        self.queries = mx.zeros((1, config.perceiver_queries, config.hidden))
        self.norm = nn.LayerNorm(config.hidden)
        self.q = Projection(config.hidden, config.hidden)
        self.kv = Projection(config.hidden, 2 * config.hidden)
        self.out = Projection(config.hidden, config.hidden)

    def _block(self, x: mx.array, seen: mx.array) -> mx.array:
        batch, length, width = x.shape
        size = width // self.heads
        q = self.q(self.norm(x)).reshape(batch, length, self.heads, size).transpose(0, 2, 1, 3)
        kv = self.kv(self.norm(seen)).reshape(batch, seen.shape[1], 2 * self.heads, size).transpose(0, 2, 1, 3)
        y = mx.fast.scaled_dot_product_attention(q, kv[:, : self.heads], kv[:, self.heads :], scale=size**-0.5)
        return x + self.out(y.transpose(0, 2, 1, 3).reshape(batch, length, width))

    def __call__(self, x: mx.array) -> mx.array:
        """x [1, P, C] -> [1, queries, C]."""
        x = self._block(self.queries, x)
        return self._block(x, x)


class Conditioning(nn.Module):
    """speaker [256], embedded prompt [1, P, C], exaggeration in [0, 2] -> rows [1, n, C]."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.speaker = Projection(config.speaker, config.hidden)
        if config.perceiver:
            self.perceiver = Perceiver(config)
        if config.emotion:
            self.emotion = mx.zeros((config.hidden, 1))
        self._perceives, self._feels = config.perceiver, config.emotion

    def __call__(self, speaker: mx.array, prompt: mx.array, exaggeration: float) -> mx.array:
        rows = [self.speaker(speaker.reshape(1, 1, -1)), self.perceiver(prompt) if self._perceives else prompt]
        if self._feels:
            rows.append((exaggeration * self.emotion.T)[None])
        return mx.concatenate(rows, axis=1)
