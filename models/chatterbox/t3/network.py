"""T3, the token model of Chatterbox: text to speech tokens, 25 a second, one after the other.

What it reads is [conditioning | text | begin of speech]. The Llama variant adds learned positions that count text and
speech from zero each, and begins speech twice at speech position 0, as the reference does; GPT-2 begins once. With
guidance (arXiv:2207.12598) two rows run side by side; the second has not read the text, only its positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlx import nn

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3.backbone import Gpt2, Llama, Matrix
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.conditioning import Conditioning
from models.layers.projection import Projection

_MARGIN = 2  # rows that the position tables have beyond max_text; for speech there are two more


class T3(nn.Module):
    """The whole network. Call `lower()` once after loading."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.config = config
        self.conditioning = Conditioning(config)
        self.text = mx.zeros((config.text_vocabulary, config.hidden))
        self.speech = mx.zeros((config.speech_vocabulary, config.hidden))
        if config.learned_positions:
            self.text_positions = mx.zeros((config.max_text + _MARGIN, config.hidden))
            self.speech_positions = mx.zeros((config.max_speech + 2 * _MARGIN, config.hidden))
        self.backbone = Llama(config) if config.backbone == "llama" else Gpt2(config)
        head = Projection if config.head_bias else Matrix
        self.head = head(config.hidden, config.speech_vocabulary)
        self.bits = 0

    @property
    def dtype(self) -> mx.Dtype:
        """Type that activations have."""
        return self.speech.dtype

    def lower(self, bits: int = 0) -> None:
        """Bring every product into the device's order; `bits` 8 or 4 quantizes the weights that a step reads."""
        self.bits = bits
        for name, module in self.named_modules():
            if isinstance(module, Projection):
                module.lower(0 if name.startswith("conditioning") else bits)

    def condition(self, speaker: mx.array, prompt: mx.array, exaggeration: float = 0.5) -> mx.array:
        """Speaker vector [256] and the reference's speech tokens [P] -> rows [1, n, C] before the text.

        n is 34 for Llama, 1 + P for GPT-2, which knows no exaggeration.
        """
        embedded = self.speech[prompt][None]
        if self.config.learned_positions:
            embedded = embedded + self.speech_positions[: prompt.shape[0]]
        rows: mx.array = self.conditioning(speaker.astype(self.dtype), embedded, exaggeration)
        return rows

    def prompt(self, condition: mx.array, text: Sequence[int], guided: bool = False) -> mx.array:
        """Conditioning [1, n, C] and the text's ids -> everything that is read before speech, [B, L, C].

        `guided`: B is 2, the second row without the text. Start and stop of text are added here.
        """
        config = self.config
        if not config.learned_positions:
            read = self.text[mx.array(list(text), dtype=mx.int32)][None]
            begin = self.speech[config.start_speech][None, None]
            return mx.concatenate([condition, read, begin], axis=1)
        ids = mx.array([config.start_text, *text, config.stop_text], dtype=mx.int32)
        read = self.text[ids][None]
        if guided:
            read = mx.concatenate([read, mx.zeros_like(read)])
        read = read + self.text_positions[: ids.shape[0]]
        begin = mx.broadcast_to(self.speech[config.start_speech] + self.speech_positions[0], (1, 2, config.hidden))
        batch = read.shape[0]
        return mx.concatenate(
            [mx.repeat(condition, batch, axis=0), read, mx.repeat(begin, batch, axis=0)],
            axis=1,
        )

    def allocate(self, batch: int, length: int, bits: int = 0) -> Cache:
        """Room for `length` positions of keys and values; with `bits` 8 or 4 they are rounded as they come."""
        config = self.config
        size = config.hidden // config.heads
        return caches.allocate(config.layers, batch, config.heads, size, length, self.dtype, bits)

    def prefill(self, embeddings: mx.array, count: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        """Read embeddings [B, L, C], of which the first count [1] are real -> logits [B, V] after them.

        What pads them writes keys and values too: they are masked until speech writes over them.
        """
        hidden, cache = self.backbone(embeddings, mx.zeros(1, dtype=mx.int32), cache)
        return self.head(mx.take(hidden, count - 1, axis=1))[:, 0], cache

    def advance(self, tokens: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        """Say tokens [n], the same in every row -> logits [B, n, V] after each.

        place [2] int32: the position of the first in the cache, and among what was said (from 1: 0 is the begin).
        """
        x = self.speech[tokens]
        if self.config.learned_positions:
            x = x + mx.take(self.speech_positions, place[1:] + mx.arange(tokens.shape[0]), axis=0)
        x = mx.broadcast_to(x[None], (caches.rows(cache), *x.shape))
        hidden, cache = self.backbone(x, place[:1], cache)
        return self.head(hidden), cache
