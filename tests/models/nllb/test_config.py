"""config.json: what is read, what is ignored, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.contract import WeightsError
from models.nllb.config import load_config
from tests.models.nllb.builder import write_config


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
def test_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(WeightsError, match=named):
        load_config(write_config(tmp_path, **changes))
