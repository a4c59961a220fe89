"""S3TokenizerV2: log-mel frames of 16 kHz speech to 25 speech tokens a second.

Du et al. 2024, "CosyVoice 2", arXiv:2412.10117: a transformer with rotary positions (Su et al. 2021, arXiv:2104.09864)
and a memory of 31 frames beside attention (FSMN: Zhang et al. 2015, arXiv:1512.08301), quantized to 3 levels in 8
dimensions (FSQ: Mentzer et al. 2023, arXiv:2309.15505). Numbers from s3tokenizer 0.3.0 model_v2.py.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import mx
from models.chatterbox.config import TokenizerConfig
from models.layers.activation import gelu
from models.layers.attention import attend
from models.layers.conv import Conv1d
from models.layers.linear import Linear
from models.layers.mel import Floats
from models.layers.norm import layer_norm

Ints = npt.NDArray[np.int32]

DIMENSIONS, LEVELS = 8, 3
FRAMES_PER_TOKEN = 4  # mel frames of 10 ms
_MEMORY = 31  # frames of 40 ms
_ROPE_BASE = 10_000.0
_BOUND = 0.9990000128746033  # keeps tanh off the levels' edges
# Longer sequences are cut into windows, which overlap; the middle of an overlap ends one and begins the other.
_WINDOW, _OVERLAP = 3000, 400  # mel frames


class Norm(nn.Module):
    """LayerNorm's `weight` and `bias` [C]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = mx.ones((width,))
        self.bias = mx.zeros((width,))

    def __call__(self, x: mx.array) -> mx.array:
        return layer_norm(x, self.weight, self.bias)


class FsmnAttention(nn.Module):
    """Rotary self-attention over [B, T, C] and, added to it, a convolution of each channel of the values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.fsmn_block = Conv1d(width, width, _MEMORY, padding=_MEMORY // 2, groups=width, bias=False)
        self.out = Linear(width, width)

    def __call__(self, x: mx.array) -> mx.array:
        batch, length, width = x.shape
        size = width // self.heads
        joined = self.qkv(x)
        values = joined[:, :, 2 * width :]
        q, k, v = joined.reshape(batch, length, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        q, k = (mx.fast.rope(y, size, traditional=False, base=_ROPE_BASE, scale=1.0, offset=0) for y in (q, k))
        y = attend(q, k, v, size**-0.5)
        return self.out(y.transpose(0, 2, 1, 3).reshape(batch, length, width)) + self.fsmn_block(values) + values


class ResidualAttentionBlock(nn.Module):
    """Attention and a feed-forward layer of four times the width, each after its norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn_ln, self.mlp_ln = Norm(width), Norm(width)
        self.attn = FsmnAttention(width, heads)
        # The activation adds fc1's bias.
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), Linear(4 * width, width)

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.attn(self.attn_ln(x))
        return x + self.fc2(gelu(self.mlp_ln(x) @ self.fc1.weight.T, self.fc1.bias))


class SpeechTokenizer(nn.Module):
    """Mel frames to tokens; every sequence alone, unpadded."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__()
        self.mels = config.mels
        self.conv1 = Conv1d(config.mels, config.width, 3, stride=2, padding=1)
        self.conv2 = Conv1d(config.width, config.width, 3, stride=2, padding=1)
        self.blocks = [ResidualAttentionBlock(config.width, config.heads) for _ in range(config.layers)]
        self.project_down = Linear(config.width, DIMENSIONS)

    def encode(self, mel: Floats) -> Generator[None, None, Ints]:
        """mel [T, mels] -> tokens [ceil(T / 4)], int32 below 3^8; yields after each layer."""
        pieces = []
        for start in range(0, len(mel), _WINDOW - _OVERLAP) if len(mel) > _WINDOW else (0,):
            x = mx.array(mel[start : start + _WINDOW])[None]
            for conv in (self.conv1, self.conv2):
                x = gelu(conv.valid(x, conv.padding, conv.padding), conv.bias)
            for block in self.blocks:
                x = block(x)
                mx.eval(x)
                yield
            pieces.append(np.array(quantize(self.project_down(x))[0]))
        half, last = _OVERLAP // 2 // FRAMES_PER_TOKEN, len(pieces) - 1
        return np.concatenate([piece[half if i else 0 : -half if i < last else None] for i, piece in enumerate(pieces)])


def quantize(x: mx.array) -> mx.array:
    """Quantize [..., 8] to token ids [...], int32: the first dimension is the least significant digit, to base 3."""
    digits = mx.round(mx.tanh(x) * _BOUND).astype(mx.int32) + 1
    return (digits * mx.array([LEVELS**k for k in range(DIMENSIONS)])).sum(axis=-1)
