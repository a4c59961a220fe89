"""The recognizer in PyTorch: Whisper's blocks under OpenAI's names, and a CTC head on the encoder.

Radford et al. 2022, arXiv:2212.04356. Inter-CTC: Lee and Watanabe 2021, arXiv:2102.03216.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from training.ear.features import MELS


@dataclass(frozen=True, slots=True)
class Sizes:
    """Widths and depths, by OpenAI's names. `n_vocab` counts the special tokens too."""

    n_vocab: int
    n_mels: int = MELS
    n_audio_ctx: int = 750
    n_audio_state: int = 256
    n_audio_head: int = 4
    n_audio_layer: int = 8
    n_text_ctx: int = 192
    n_text_state: int = 256
    n_text_head: int = 4
    n_text_layer: int = 3


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Return positions [length, width]: sines, then cosines."""
    scale = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(length)[:, None] * scale
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):
    """Multi-head attention; the keys have no bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.value, self.out = (nn.Linear(width, width) for _ in range(3))
        self.key = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None, causal: bool) -> torch.Tensor:
        def split(y: torch.Tensor) -> torch.Tensor:
            return y.unflatten(2, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(memory)), split(self.value(memory))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        found: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return found


class Block(nn.Module):
    """Pre-norm attention, attention to the encoder where `cross`, and feed-forward."""

    def __init__(self, width: int, heads: int, *, cross: bool, dropout: float) -> None:
        super().__init__()
        self.attn, self.attn_ln = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.cross_attn, self.cross_attn_ln = Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.mlp_ln = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None, memory: torch.Tensor | None = None) -> torch.Tensor:
        normal = self.attn_ln(x)
        causal = memory is not None
        x = x + self.drop(self.attn(normal, normal, None if causal else mask, causal))
        if memory is not None:
            x = x + self.drop(self.cross_attn(self.cross_attn_ln(x), memory, mask, False))
        return x + self.drop(self.mlp(self.mlp_ln(x)))


class Encoder(nn.Module):
    """Features to states, 50 a second."""

    def __init__(self, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        width = sizes.n_audio_state
        self.conv1 = nn.Conv1d(sizes.n_mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        for conv in (self.conv1, self.conv2):  # as loud as the positions, which the first layers would hear alone
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        self.register_buffer("positional_embedding", sinusoids(sizes.n_audio_ctx, width))
        self.blocks = nn.ModuleList(
            Block(width, sizes.n_audio_head, cross=False, dropout=dropout) for _ in range(sizes.n_audio_layer)
        )
        self.ln_post = nn.LayerNorm(width)

    def forward(self, mel: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states [B, T / 2, C] of mel [B, MELS, T], and the middle block's; `mask` is [B, 1, 1, T / 2]."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        x = x + self.positional_embedding[: x.shape[1]]
        middle = x
        for number, block in enumerate(self.blocks, 1):
            x = block(x, mask)
            if number == len(self.blocks) // 2:
                middle = x
        return self.ln_post(x), self.ln_post(middle)


class Decoder(nn.Module):
    """Tokens and states of the encoder to logits; the embedding is also the output's weight."""

    def __init__(self, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        width = sizes.n_text_state
        self.token_embedding = nn.Embedding(sizes.n_vocab, width)
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        self.positional_embedding = nn.Parameter(torch.randn(sizes.n_text_ctx, width) * 0.01)
        self.blocks = nn.ModuleList(
            Block(width, sizes.n_text_head, cross=True, dropout=dropout) for _ in range(sizes.n_text_layer)
        )
        self.ln = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return logits [B, L, n_vocab]."""
        x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, mask, memory)
        return F.linear(self.ln(x), self.token_embedding.weight)


class Head(nn.Module):
    """CTC logits [B, T, labels + 1] of the encoder's states; the last label is the blank."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.ln, self.out = nn.LayerNorm(width), nn.Linear(width, labels + 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.ln(states))
        return found


class Ear(nn.Module):
    """Encoder, decoder and CTC head. `labels` of the head are the tokens that are text."""

    def __init__(self, sizes: Sizes, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.sizes, self.labels = sizes, labels
        self.encoder, self.decoder = Encoder(sizes, dropout), Decoder(sizes, dropout)
        self.ctc = Head(sizes.n_audio_state, labels)


def frame_mask(frames: torch.Tensor, length: int) -> torch.Tensor:
    """Return a mask [B, 1, 1, length] for attention, true on the first `frames` [B] of each row."""
    return (torch.arange(length, device=frames.device) < frames[:, None])[:, None, None]
