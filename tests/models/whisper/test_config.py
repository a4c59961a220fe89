"""config.json of the hub and of the MLX community: what is read, what is ignored, what is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from models.contract import WeightsError
from models.whisper.config import Quantization, load_config, load_quantization
from tests.models.whisper.builder import config, hub_config

LARGE = config(n_mels=128, n_audio_ctx=1500, n_audio_layer=32, n_vocab=51866, n_text_layer=4, n_text_ctx=448)


def test_the_hub(tmp_path: Path) -> None:
    assert load_config(hub_config(tmp_path, LARGE, max_length=448, suppress_tokens=[1, 2])) == LARGE


def test_the_mlx_community(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**asdict(LARGE), "model_type": "whisper"}))
    assert load_config(path) == LARGE


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "bart"}, "model_type"),
        ({"activation_function": "gelu_new"}, "activation_function"),
        ({"scale_embedding": True}, "scale_embedding"),
        ({"encoder_ffn_dim": 100}, "encoder_ffn_dim"),
        ({"vocab_size": None}, "n_vocab"),
        ({"decoder_layers": 0}, "n_text_layer"),
        ({"num_mel_bins": "80"}, "n_mels"),
        ({"encoder_attention_heads": 5}, "n_audio_head"),
        ({"decoder_layers": 10**9}, "at most 1024 is read"),
        ({"vocab_size": 1 << 40}, "at most 1048576 is read"),
    ],
)
def test_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(WeightsError, match=named):
        load_config(hub_config(tmp_path, LARGE, **changes))


@pytest.mark.parametrize(
    "layout", [{"bits": 4}, {"group_size": 64, "bits": 7}, [64, 8], {"group_size": 64, "bits": 8, "mode": "mxfp4"}]
)
def test_a_quantization_that_is_not_read(tmp_path: Path, layout: Any) -> None:
    with pytest.raises(WeightsError, match="quantization"):
        load_quantization(hub_config(tmp_path, LARGE, quantization=layout))


def test_quantization(tmp_path: Path) -> None:
    path = hub_config(tmp_path, LARGE, quantization={"group_size": 64, "bits": 4})
    assert load_quantization(path) == Quantization(64, 4)
    assert load_quantization(hub_config(tmp_path, LARGE)) is None
