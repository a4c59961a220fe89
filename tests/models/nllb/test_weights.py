"""Strict loading of the official layout, on tiny random checkpoints; and of config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten

from loadtest import torch_file
from models.backend import mx
from models.checkpoint import read_arrays
from models.contract import ModelSpec, WeightsError
from models.nllb.config import NllbConfig, load_config
from models.nllb.network import Nllb
from models.nllb.pipeline import load
from models.nllb.weights import load_weights
from tests.models.nllb.builder import files, official_arrays, to_mx, write_config

SHARED = "model.shared.weight"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> NllbConfig:
    return load_config(write_config(tmp_path_factory.mktemp("config")))


@pytest.fixture
def arrays(config: NllbConfig) -> dict[str, np.ndarray]:
    return official_arrays(config, 0)


def loaded(config: NllbConfig, arrays: dict[str, mx.array]) -> dict[str, np.ndarray]:
    """The network's parameters after loading."""
    network = Nllb(config)
    load_weights(network, arrays, "file")
    return {name: np.array(array) for name, array in tree_flatten(network.parameters())}


@pytest.mark.parametrize("copies", ["tied", "saved tables"])
def test_copies_are_accepted(config: NllbConfig, arrays: dict[str, np.ndarray], copies: str) -> None:
    expected = loaded(config, to_mx(arrays))
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    if copies == "tied":
        arrays |= {f"model.{name}": arrays[SHARED] for name in names} | {"lm_head.weight": arrays[SHARED]}
    else:
        arrays["model.encoder.embed_positions.weights"] = np.zeros((66, 64), np.float32)
    found = loaded(config, to_mx(arrays))
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


def test_an_untied_projection_is_refused(config: NllbConfig, arrays: dict[str, np.ndarray]) -> None:
    arrays["lm_head.weight"] = arrays[SHARED].copy()
    arrays["lm_head.weight"][5, 5] += 1
    with pytest.raises(WeightsError, match=r"lm_head\.weight differs"):
        loaded(config, to_mx(arrays))


def test_pytorch_model_bin(tmp_path: Path, config: NllbConfig, arrays: dict[str, np.ndarray]) -> None:
    """Through the reader that knows tensors only; tied names are one storage, as in the official file."""
    tied = (SHARED, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    path = tmp_path / "pytorch_model.bin"
    torch_file.write(path, {**arrays, **dict.fromkeys(tied, arrays[SHARED])})
    found, expected = loaded(config, read_arrays(path)), loaded(config, to_mx(arrays))
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.parametrize("bits", [3, 16])
def test_bits(tmp_path: Path, bits: int) -> None:
    with pytest.raises(WeightsError, match="4 or 8 bits"):
        load(ModelSpec("tiny", "nllb", files(tmp_path), bits=bits))


def test_a_width_that_cannot_be_quantized(tmp_path: Path) -> None:
    given = files(tmp_path, encoder_ffn_dim=96)
    load(ModelSpec("tiny", "nllb", given))
    with pytest.raises(WeightsError, match="multiples of 64"):
        load(ModelSpec("tiny", "nllb", given, bits=8))


def test_unscaled_embeddings(tmp_path: Path) -> None:
    assert load_config(write_config(tmp_path, scale_embedding=False)).embedding_scale == 1.0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "bart"}, "model_type"),
        ({"activation_function": "gelu"}, "activation_function"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"d_model": None}, "d_model"),
        ({"d_model": "64"}, "d_model"),
        ({"decoder_layers": -1}, "decoder_layers"),
        ({"encoder_attention_heads": 5}, "encoder_attention_heads"),
        ({"decoder_attention_heads": 0}, "decoder_attention_heads"),
    ],
)
def test_a_configuration_that_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(WeightsError, match=named):
        load_config(write_config(tmp_path, **changes))
