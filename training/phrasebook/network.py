"""The network in PyTorch: transformers' M2M100 (pre-norm encoder-decoder), under its parameter names."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, END = 1, 2
OFFSET = 2  # position of the first token


@dataclass(frozen=True, slots=True)
class Config:
    """Widths and depths, by the names of transformers' M2M100Config."""

    vocab_size: int
    d_model: int = 192
    encoder_layers: int = 3
    decoder_layers: int = 3
    encoder_attention_heads: int = 4
    decoder_attention_heads: int = 4
    encoder_ffn_dim: int = 768
    decoder_ffn_dim: int = 768
    max_position_embeddings: int = 128


def positions(length: int, width: int) -> Tensor:
    """Sinusoids [length, width] of the positions from `OFFSET` on: sines, then cosines, frequencies 1 to 1/10000."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half) * -(math.log(10000.0) / (half - 1)))
    angles = torch.arange(OFFSET, OFFSET + length)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Attention(nn.Module):
    """Multi-head attention. `mask` [batch, 1, 1 or queries, keys] is true where a key may be seen."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        query, key, value = split(self.q_proj(x)), split(self.k_proj(memory)), split(self.v_proj(memory))
        # The CPU's attention is many times slower in bfloat16 than in float32, unlike its products.
        mixed = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=mask)
        return self.out_proj(mixed.to(x.dtype).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """One layer of the encoder, or of the decoder where `cross`."""

    def __init__(self, width: int, heads: int, inner: int, *, cross: bool) -> None:
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.encoder_attn, self.encoder_attn_layer_norm = Attention(width, heads), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
        normed = self.self_attn_layer_norm(x)
        x = x + self.self_attn(normed, normed, mask)
        if memory is not None and seen is not None:
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), memory, seen)
        return x + self.fc2(F.relu(self.fc1(self.final_layer_norm(x))))


class Stack(nn.Module):
    """The encoder's or the decoder's layers and the norm after them."""

    def __init__(self, width: int, heads: int, inner: int, layers: int, *, cross: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, inner, cross=cross) for _ in range(layers))
        self.layer_norm = nn.LayerNorm(width)


class Model(nn.Module):
    """Shared embedding, encoder, decoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.shared = nn.Embedding(config.vocab_size, width)
        nn.init.normal_(self.shared.weight, std=width**-0.5)
        self.encoder = Stack(
            width, config.encoder_attention_heads, config.encoder_ffn_dim, config.encoder_layers, cross=False
        )
        self.decoder = Stack(
            width, config.decoder_attention_heads, config.decoder_ffn_dim, config.decoder_layers, cross=True
        )


class Phrasebook(nn.Module):
    """The translator. Its parameters have the names of M2M100ForConditionalGeneration."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = Model(config)
        table = positions(config.max_position_embeddings, config.d_model)
        self.register_buffer("table", table, persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        return self.model.shared(ids) * self.config.d_model**0.5 + self.table[: ids.shape[1]]

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """(states [batch, length, width], mask of what is not padding) of ids [batch, length], padded on the right."""
        seen = (source != PAD)[:, None, None, :]
        x = self.embed(source)
        for layer in self.model.encoder.layers:
            x = layer(x, seen)
        return self.model.encoder.layer_norm(x), seen

    def decode(self, target: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
        """States [batch, length, width] after each of `target` [batch, length]; `logits` makes scores of them."""
        length = target.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
        x = self.embed(target)
        for layer in self.model.decoder.layers:
            x = layer(x, causal, memory, seen)
        return self.model.decoder.layer_norm(x)

    def logits(self, states: Tensor) -> Tensor:
        """Scores [..., vocabulary] of states [..., width]."""
        return F.linear(states, self.model.shared.weight)

    @torch.no_grad()
    def translate(self, source: Tensor, codes: Tensor, limit: int = 60) -> list[list[int]]:
        """Greedy translations of `source` [batch, length] into the languages `codes` [batch]; ids without the end."""
        memory, seen = self.encode(source)
        target = torch.stack([torch.full_like(codes, END), codes], dim=1)
        done = torch.zeros_like(codes, dtype=torch.bool)
        for _ in range(limit):
            best = self.logits(self.decode(target, memory, seen)[:, -1]).argmax(-1).masked_fill(done, END)
            target = torch.cat([target, best[:, None]], dim=1)
            done |= best == END
            if done.all():
                break
        rows = target[:, 2:].tolist()
        return [row[: row.index(END)] if END in row else row for row in rows]
