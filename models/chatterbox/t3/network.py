"""T3, the token model of Chatterbox: text to speech tokens, 25 a second, one after the other.

Its input is [conditioning | text | begin of speech]. The Llama variant adds learned positions, which count text and
speech from zero each. It begins speech twice at speech position 0, as the reference does; GPT-2 begins once. With
guidance (arXiv:2207.12598) two rows run side by side. The second reads only the text's positions.

A voice conditions it by rows of embeddings before the text. Llama: the speaker's vector, 32 rows that a Perceiver
(arXiv:2103.03206) makes of the recording's speech tokens, and the emotion. GPT-2: the speaker's vector and the tokens
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlx import nn

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3.backbone import Attend, Gpt2, Llama, Matrix, Table, attend
from models.chatterbox.t3.cache import Cache
from models.layers.linear import Projection

_MARGIN = 2  # rows that the position tables have beyond max_text; for speech there are two more


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


class T3(nn.Module):
    """The whole network. Call `lower()` once after loading."""

    def __init__(self, config: T3Config) -> None:
        super().__init__()
        self.config = config
        self.text_emb = Table(config.text_vocabulary, config.hidden)
        self.speech_emb = Table(config.speech_vocabulary, config.hidden)
        if config.learned_positions:
            self.text_pos_emb = Table(config.max_text + _MARGIN, config.hidden)
            self.speech_pos_emb = Table(config.max_speech + 2 * _MARGIN, config.hidden)
        head = Projection if config.head_bias else Matrix
        self.speech_head = head(config.hidden, config.speech_vocabulary)
        self.cond_enc = T3Conditioning(config)
        self.tfmr = Llama(config) if config.backbone == "llama" else Gpt2(config)
        self.bits = 0
        self.attend: Attend = attend  # of a prefill, which begins at place 0: a kernel may replace it

    @property
    def dtype(self) -> mx.Dtype:
        """Type of the activations."""
        return self.speech_emb.weight.dtype

    def lower(self, bits: int = 0) -> None:
        """Bring every product into the device's order; `bits` 8 or 4 quantizes the weights that a step reads."""
        self.bits = bits
        for name, module in self.named_modules():
            if isinstance(module, Projection):
                module.lower(0 if name.startswith("cond_enc") else bits)
        mx.eval(self.parameters())

    def condition(self, speaker: mx.array, prompt: mx.array, exaggeration: float = 0.5) -> mx.array:
        """Speaker vector [256] and the reference's speech tokens [P] -> rows [1, n, C] before the text.

        n is 34 for Llama, 1 + P for GPT-2, which knows no exaggeration.
        """
        embedded = self.speech_emb.weight[prompt][None]
        if self.config.learned_positions:
            embedded = embedded + self.speech_pos_emb.weight[: prompt.shape[0]]
        rows: mx.array = self.cond_enc(speaker.astype(self.dtype), embedded, exaggeration)
        return rows

    def prompt(self, condition: mx.array, text: Sequence[int], guided: bool = False) -> mx.array:
        """Conditioning [1, n, C] and the text's ids -> all embeddings before speech, [B, L, C].

        `guided`: B is 2, the second row without the text. Start and stop of text are added here.
        """
        config = self.config
        if not config.learned_positions:
            read = self.text_emb.weight[mx.array(list(text), dtype=mx.int32)][None]
            begin = self.speech_emb.weight[config.start_speech][None, None]
            return mx.concatenate([condition, read, begin], axis=1)
        ids = mx.array([config.start_text, *text, config.stop_text], dtype=mx.int32)
        read = self.text_emb.weight[ids][None]
        if guided:
            read = mx.concatenate([read, mx.zeros_like(read)])
        read = read + self.text_pos_emb.weight[: ids.shape[0]]
        begin = mx.broadcast_to(
            self.speech_emb.weight[config.start_speech] + self.speech_pos_emb.weight[0], (1, 2, config.hidden)
        )
        batch = read.shape[0]
        return mx.concatenate(
            [mx.repeat(condition, batch, axis=0), read, mx.repeat(begin, batch, axis=0)],
            axis=1,
        )

    def allocate(self, batch: int, length: int, bits: int = 0) -> Cache:
        """Make room for `length` positions of keys and values; with `bits` 8 or 4 they are rounded as they come."""
        config = self.config
        size = config.hidden // config.heads
        return caches.allocate(config.layers, batch, config.heads, size, length, self.dtype, bits)

    def prefill(self, embeddings: mx.array, count: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        """Read embeddings [B, L, C], of which the first count [1] are real -> logits [B, V] after them.

        Padding writes keys and values too: they are masked until speech writes over them. `cache` is empty.
        """
        hidden, cache = self.tfmr(embeddings, mx.zeros(1, dtype=mx.int32), cache, self.attend)
        return self.speech_head(mx.take(hidden, count - 1, axis=1))[:, 0], cache

    def advance(self, tokens: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        """Read spoken tokens [n], the same in every row -> logits [B, n, V] after each.

        place [2] int32: the position of the first in the cache, and among the spoken tokens (from 1: 0 is the begin).
        """
        x = self.speech_emb.weight[tokens]
        if self.config.learned_positions:
            x = x + mx.take(self.speech_pos_emb.weight, place[1:] + mx.arange(tokens.shape[0]), axis=0)
        x = mx.broadcast_to(x[None], (caches.rows(cache), *x.shape))
        hidden, cache = self.tfmr(x, place[:1], cache)
        return self.speech_head(hidden), cache
