"""The checkpoint's files: what they say of the network, and that they can be loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.contract import ModelSpec
from models.nllb.pipeline import load
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
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (305, WIDTH)}
    for side, depth in (("encoder", 1), ("decoder", 2)):
        for layer in range(depth):
            stem = f"model.{side}.layers.{layer}"
            attentions = ["self_attn"] + ["encoder_attn"] * (side == "decoder")
            for name in attentions:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes |= {f"{stem}.{name}.{part}.weight": (WIDTH, WIDTH), f"{stem}.{name}.{part}.bias": (WIDTH,)}
            for name in [f"{attention}_layer_norm" for attention in attentions] + ["final_layer_norm"]:
                shapes |= {f"{stem}.{name}.{part}": (WIDTH,) for part in ("weight", "bias")}
            shapes |= {f"{stem}.fc1.weight": (INNER, WIDTH), f"{stem}.fc1.bias": (INNER,)}
            shapes |= {f"{stem}.fc2.weight": (WIDTH, INNER), f"{stem}.fc2.bias": (WIDTH,)}
        shapes |= {f"model.{side}.layer_norm.{part}": (WIDTH,) for part in ("weight", "bias")}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


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
