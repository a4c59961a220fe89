"""The checkpoint's files: what they say of the network, and that they can be loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.contract import ModelSpec
from models.nllb.pipeline import load
from tests.models.nllb.builder import official_arrays, tiny_config
from training.phrasebook.export import config_of, pack
from training.phrasebook.tokens import train

WIDTH, INNER = 16, 24


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokenizer.json"
    train(pieces=300, count=50).save(str(path))
    return path


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    return official_arrays(
        tiny_config(
            vocab_size=305,
            d_model=WIDTH,
            encoder_layers=1,
            decoder_layers=2,
            encoder_ffn_dim=INNER,
            decoder_ffn_dim=INNER,
        ),
        seed=0,
    )


def test_the_configuration_follows_from_the_shapes(arrays: dict[str, np.ndarray]) -> None:
    config = config_of(arrays)
    assert (config["vocab_size"], config["d_model"], config["encoder_ffn_dim"]) == (305, WIDTH, INNER)
    assert (config["encoder_layers"], config["decoder_layers"]) == (1, 2)


def test_what_is_written_can_be_loaded(arrays: dict[str, np.ndarray], tokenizer: Path, tmp_path: Path) -> None:
    pack(arrays, tokenizer, tmp_path)
    names = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    model = load(ModelSpec("phrasebook", "nllb", {role: str(tmp_path / name) for role, name in names.items()}))
    assert model.languages == ["eng_Latn", "spa_Latn", "fra_Latn", "deu_Latn"]
    assert (tmp_path / "coverage.json").is_file()


def test_what_float16_cannot_hold_is_refused(arrays: dict[str, np.ndarray], tokenizer: Path, tmp_path: Path) -> None:
    arrays["model.encoder.layer_norm.bias"][3] = 1e6
    with pytest.raises(ValueError, match=r"encoder\.layer_norm\.bias"):
        pack(arrays, tokenizer, tmp_path)
