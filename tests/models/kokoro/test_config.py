"""config.json."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from models.contract import WeightsError
from models.kokoro.config import load_config
from tests.models.kokoro.builder import TINY, write_config

# What the official file says of the widths that its package hard-codes: nothing.
OFFICIAL = {key: value for key, value in TINY.items() if key not in ("decoder_dim", "residual_dim")}


def test_the_official_keys(tmp_path: Path) -> None:
    """Widths that the reference hard-codes have its values; the text encoder is as deep as n_layer."""
    config = load_config(write_config(tmp_path, OFFICIAL))
    assert (config.decoder_dim, config.residual_dim, config.text_encoder_layers) == (1024, 64, 2)
    assert config.plbert.hidden_size == 16
    assert config.istftnet.resblock_dilation_sizes == ((1, 3, 5),) * 3
    assert config.istftnet.samples_per_step == 300
    assert config.max_phonemes == 510


def test_named_widths(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, {**TINY, "text_encoder_layers": 5}))
    assert (config.decoder_dim, config.residual_dim, config.text_encoder_layers) == (20, 4, 5)


def test_what_it_speaks_is_declared(tmp_path: Path) -> None:
    """The official file says nothing of it: its voices' names do."""
    official = load_config(write_config(tmp_path, OFFICIAL))
    assert (official.languages, official.voices) == ((), {})
    said = {"languages": ["en-us", "es"], "voices": {"ada": {"gender": "female"}}}
    config = load_config(write_config(tmp_path, {**TINY, **said}))
    assert config.languages == ("en-us", "es")
    assert config.voices == {"ada": {"gender": "female"}}


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """TINY with one value set, or removed where it is None."""
    values: dict[str, Any] = copy.deepcopy(TINY)
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("hiden_dim",), 3, "unknown keys hiden_dim"),
        (("plbert", "layers"), 3, "plbert: unknown keys layers"),
        (("istftnet", "hop"), 3, "istftnet: unknown keys hop"),
        (("hidden_dim",), None, "hidden_dim"),
        (("plbert", "hidden_size"), None, "plbert: .*hidden_size"),
        (("istftnet", "upsample_rates"), None, "istftnet: .*upsample_rates"),
        (("plbert",), None, "not a Kokoro configuration: .*plbert"),
        (("vocab",), None, "vocab"),
        (("istftnet",), 7, "not a Kokoro configuration"),
        (("languages",), "en-us", "languages is not a list"),
        (("languages",), [1], "languages is not a list"),
        (("voices",), ["a"], "voices is not an object"),
        (("voices",), {"a": "male"}, "voices is not an object"),
        (("voices",), {"a": {"gender": "tenor"}}, "voice a declares"),
        (("voices",), {"a": {"sex": "male"}}, "voice a declares"),
    ],
)
def test_missing_and_unknown_keys_are_named(tmp_path: Path, path: tuple[str, ...], value: Any, message: str) -> None:
    with pytest.raises(WeightsError, match=rf"config\.json.*{message}"):
        load_config(write_config(tmp_path, changed(path, value)))
