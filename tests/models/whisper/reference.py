"""Whisper's network in plain numpy, in double precision: the oracle of `models.whisper.network`."""

from __future__ import annotations

import math

import numpy as np

from models.whisper.config import WhisperConfig

Arrays = dict[str, np.ndarray]


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class Reference:
    """The network of `arrays` by OpenAI's names."""

    def __init__(self, config: WhisperConfig, arrays: Arrays) -> None:
        self.config = config
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        y = x @ self.arrays[f"{name}.weight"].T
        bias = self.arrays.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        y = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
        found: np.ndarray = y * self.arrays[f"{name}.weight"] + self.arrays[f"{name}.bias"]
        return found

    def conv(self, x: np.ndarray, name: str, stride: int) -> np.ndarray:
        """x [T, I] -> [T / stride, O]."""
        padded = np.pad(x, ((1, 1), (0, 0)))
        taps = self.arrays[f"{name}.weight"]
        rows = sum(padded[k : k + len(x)] @ taps[:, :, k].T for k in range(3)) + self.arrays[f"{name}.bias"]
        return np.asarray(rows)[::stride]

    def attention(
        self, x: np.ndarray, heard: np.ndarray, name: str, heads: int, *, causal: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Attention of x [T, C] to heard [S, C] -> [T, C], and its logits [heads, T, S]."""
        q, k, v = (
            self.linear(source, f"{name}.{part}").reshape(len(source), heads, -1).transpose(1, 0, 2)
            for source, part in ((x, "query"), (heard, "key"), (heard, "value"))
        )
        logits = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        masked = np.where(np.tri(len(x), len(heard), dtype=bool), logits, -np.inf) if causal else logits
        weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self.linear((weights @ v).transpose(1, 0, 2).reshape(len(x), -1), f"{name}.out"), logits

    def feed(self, x: np.ndarray, block: str) -> np.ndarray:
        wide = _gelu(self.linear(self.norm(x, f"{block}.mlp_ln"), f"{block}.mlp.0"))
        return x + self.linear(wide, f"{block}.mlp.2")

    def encode(self, mel: np.ndarray) -> np.ndarray:
        """mel [2 * S, mels] -> [S, C]."""
        x = _gelu(self.conv(_gelu(self.conv(mel, "encoder.conv1", 1)), "encoder.conv2", 2))
        x = x + self.arrays["encoder.positional_embedding"][: len(x)]
        for number in range(self.config.n_audio_layer):
            block = f"encoder.blocks.{number}"
            normal = self.norm(x, f"{block}.attn_ln")
            x = self.feed(
                x + self.attention(normal, normal, f"{block}.attn", self.config.n_audio_head, causal=False)[0], block
            )
        return self.norm(x, "encoder.ln_post")

    def decode(self, ids: list[int], heard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits [T, V] after each of `ids`, and those of the cross-attention [layers, heads, T, S]."""
        table = self.arrays["decoder.token_embedding.weight"]
        x = table[ids] + self.arrays["decoder.positional_embedding"][: len(ids)]
        crosses = []
        for number in range(self.config.n_text_layer):
            block, heads = f"decoder.blocks.{number}", self.config.n_text_head
            normal = self.norm(x, f"{block}.attn_ln")
            x = x + self.attention(normal, normal, f"{block}.attn", heads, causal=True)[0]
            y, cross = self.attention(
                self.norm(x, f"{block}.cross_attn_ln"), heard, f"{block}.cross_attn", heads, causal=False
            )
            crosses.append(cross)
            x = self.feed(x + y, block)
        return self.norm(x, "decoder.ln") @ table.T, np.array(crosses)
