"""PL-BERT: its attention against PyTorch's values (tests/golden/make_layers.py), the whole against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.kokoro.network import Kokoro
from models.layers.conv import PaddingMask
from tests.golden.layer_cases import ATTENTION
from tests.models.kokoro.builder import TINY, build, official_arrays, tiny_config, to_mx
from tests.models.kokoro.house import distance
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden

ALBERT = "bert.encoder.albert_layer_groups.0.albert_layers.0"
IDS = [0, 3, 9, 1, 20, 7, 7, 2, 0]


@pytest.mark.parametrize("extra", [0, 6])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_equals_torch(name: str, extra: int) -> None:
    """Padded keys count for nothing, however many."""
    assert checks.attention(ATTENTION[name], golden("attention", name), extra) < TOLERANCE


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_exact(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def albert(arrays: dict[str, np.ndarray], gelu: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """ALBERT (arXiv:1909.11942) in float64: one layer, applied twice, LayerNorm at 1e-12."""
    a = {name.removeprefix(f"{ALBERT}."): array.astype(np.float64) for name, array in arrays.items()}

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ a[f"{name}.weight"].T + a[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12) * a[f"{name}.weight"] + a[f"{name}.bias"]

    e = "bert.embeddings"
    x = a[f"{e}.word_embeddings.weight"][IDS] + a[f"{e}.position_embeddings.weight"][: len(IDS)]
    x = norm(x + a[f"{e}.token_type_embeddings.weight"][0], f"{e}.LayerNorm")
    x = linear(x, "bert.encoder.embedding_hidden_mapping_in")
    heads = TINY["plbert"]["num_attention_heads"]
    for _ in range(TINY["plbert"]["num_hidden_layers"]):
        q, k, v = (
            linear(x, f"attention.{name}").reshape(len(IDS), heads, -1).swapaxes(0, 1)
            for name in ("query", "key", "value")
        )
        weights = np.exp(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1]))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ v
        x = norm(x + linear(mixed.swapaxes(0, 1).reshape(len(IDS), -1), "attention.dense"), "attention.LayerNorm")
        x = norm(x + linear(gelu(linear(x, "ffn")), "ffn_output"), "full_layer_layer_norm")
    return x


def test_albert_uses_the_tanh_gelu(tmp_path: Path) -> None:
    """Trap: the exact GELU moves durations. Both are computed here; the network is on the tanh form."""
    arrays = official_arrays(TINY, seed=5)
    network: Kokoro = build(tiny_config(tmp_path), to_mx(arrays))
    found = np.array(network.bert(mx.array([IDS]), PaddingMask()), dtype=np.float64)[0]
    assert distance(found, albert(arrays, gelu_tanh)) < 2e-6
    assert distance(found, albert(arrays, gelu_exact)) > 2e-5
