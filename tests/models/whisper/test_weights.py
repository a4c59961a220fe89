"""Three layouts make one network, as config.json says: nothing missing, extra or misshapen; heads that follow audio."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten

from loadtest import torch_file
from models.backend import mx
from models.contract import WeightsError
from models.whisper.config import Quantization, load_config, load_quantization
from models.whisper.network import Whisper
from models.whisper.weights import load_weights, read_checkpoint, read_heads, rename
from tests.models.whisper.builder import config, hub_arrays, hub_config, mlx_arrays, openai_arrays, to_mx

DIMS = config(n_vocab=1900)
ARRAYS = openai_arrays(DIMS)


def loaded(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    net = Whisper(DIMS)
    load_weights(net, rename(to_mx(arrays), DIMS), "arrays")
    return {name: np.array(array) for name, array in tree_flatten(net.parameters())}


def test_layouts_make_one_network() -> None:
    wanted = loaded(ARRAYS)
    assert np.array_equal(wanted["encoder.conv1.weight"], ARRAYS["encoder.conv1.weight"].swapaxes(1, 2))
    assert not wanted["encoder.blocks.0.attn.key.bias"].any()
    for arrays in (hub_arrays(ARRAYS), {k: v for k, v in mlx_arrays(ARRAYS, []).items() if k != "alignment_heads"}):
        found = loaded(arrays)
        assert found.keys() == wanted.keys()
        computed = {"encoder.positional_embedding"} if arrays.keys() & {"encoder.blocks.0.mlp1.bias"} else set()
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted.keys() - computed)


def test_computed_positions_are_sines_then_cosines() -> None:
    arrays = {k: v for k, v in mlx_arrays(ARRAYS, []).items() if k != "alignment_heads"}
    found = loaded(arrays)["encoder.positional_embedding"]
    assert np.allclose(found[:, 0], np.sin(np.arange(100)), atol=1e-5)
    assert np.allclose(found[:, 32], np.cos(np.arange(100)), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"encoder.blocks.0.attn.key.bias": np.zeros(64, np.float32)}, "unexpected encoder.blocks.0.attn.key.bias"),
        ({"proj_out.weight": np.zeros((1900, 64), np.float32)}, "tied"),
    ],
)
def test_refused(change: dict[str, np.ndarray], named: str) -> None:
    with pytest.raises(WeightsError, match=named):
        loaded({**ARRAYS, **change})


def test_the_same_projection_twice_is_read() -> None:
    assert loaded({**ARRAYS, "proj_out.weight": ARRAYS["decoder.token_embedding.weight"]})


def test_files(tmp_path: Path) -> None:
    """The hub's with its generation config; the MLX community's .npz with its heads."""
    hub = tmp_path / "model.safetensors"
    mx.save_safetensors(str(hub), to_mx(hub_arrays(ARRAYS)))
    generation = tmp_path / "generation_config.json"
    generation.write_text(json.dumps({"alignment_heads": [[1, 2], [0, 3]]}))
    files = {"config": str(hub_config(tmp_path, DIMS)), "weights": str(hub), "generation": str(generation)}
    dims, arrays, heads = read_checkpoint(files, "any")
    assert (dims, heads) == (DIMS, ((1, 2), (0, 3)))
    path = tmp_path / "weights.npz"
    mx.savez(str(path), **to_mx(mlx_arrays(ARRAYS, [(1, 0), (1, 3)])))
    (tmp_path / "config.json").write_text(json.dumps(asdict(DIMS)))
    dims, again, heads = read_checkpoint({"config": str(tmp_path / "config.json"), "weights": str(path)}, "any")
    assert (dims, heads) == (DIMS, ((1, 0), (1, 3)))
    assert all(bool(mx.array_equal(again[name], arrays[name])) for name in arrays if "positional" not in name)
    official = tmp_path / "base.pt"
    dims = {key: value for key, value in asdict(DIMS).items() if key != "n_ctc"}
    torch_file.write(official, {"dims": dims, "model_state_dict": ARRAYS})
    # Its own configuration counts, whatever lies beside it; the catalog names the file for both.
    dims, again, _ = read_checkpoint({"config": str(official), "weights": str(official)}, "any")
    assert dims == DIMS
    assert all(bool(mx.array_equal(again[name], arrays[name])) for name in arrays)
    generation.write_text(json.dumps({"alignment_heads": [[2, 0]]}))
    with pytest.raises(WeightsError, match="alignment heads"):
        read_checkpoint(files, "any")


def test_quantized_weights_of_the_mlx_community(tmp_path: Path) -> None:
    arrays = to_mx(mlx_arrays(ARRAYS, [(1, 0)]))
    wanted = {}
    for name in [name for name in arrays if name.endswith(".weight") and arrays[name].ndim == 2]:
        parts = mx.quantize(arrays[name], group_size=32, bits=4)
        base = name.removesuffix(".weight")
        arrays |= dict(zip((name, f"{base}.scales", f"{base}.biases"), parts, strict=True))
        wanted[name] = mx.dequantize(*parts, group_size=32, bits=4)
    path = tmp_path / "weights.npz"
    mx.savez(str(path), **arrays)
    config_path = tmp_path / "config.json"
    config_path.write_text(json.dumps(asdict(DIMS) | {"quantization": {"group_size": 32, "bits": 4}}))
    files = {"config": str(config_path), "weights": str(path)}
    _, found, _ = read_checkpoint(files, "any")
    assert len(wanted) > 10
    assert all(bool(mx.array_equal(found[name], array)) for name, array in wanted.items())
    load_weights(Whisper(DIMS), found, "quantized")
    config_path.write_text(json.dumps(asdict(DIMS)))
    with pytest.raises(WeightsError, match="scales"):
        load_weights(Whisper(DIMS), read_checkpoint(files, "any")[1], "quantized")
    config_path.write_text(json.dumps(asdict(DIMS) | {"quantization": {"group_size": 32, "bits": 8}}))
    with pytest.raises(WeightsError, match="8 bits"):
        read_checkpoint(files, "any")
    mx.savez(str(path), **{name: array for name, array in arrays.items() if not name.endswith(".biases")})
    with pytest.raises(WeightsError, match="must have a weight, scales and biases"):
        read_checkpoint(files, "any")


def test_heads_of_official_models() -> None:
    turbo = config(n_vocab=51866, n_text_layer=4, n_text_head=20, n_text_state=1280, n_audio_state=1280)
    assert read_heads(None, "whisper-large-v3-turbo", turbo) == ((2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14))
    assert len(read_heads(None, "tiny", config(n_text_layer=4, n_text_head=6))) == 6
    # Another shape than that name has: all heads of the upper half.
    assert read_heads(None, "tiny", config()) == tuple((1, head) for head in range(4))


LARGE = config(n_mels=128, n_audio_ctx=1500, n_audio_layer=32, n_vocab=51866, n_text_layer=4, n_text_ctx=448)


def test_the_configuration_of_the_hub(tmp_path: Path) -> None:
    assert load_config(hub_config(tmp_path, LARGE, max_length=448, suppress_tokens=[1, 2])) == LARGE


def test_the_configuration_of_the_mlx_community(tmp_path: Path) -> None:
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
def test_a_configuration_that_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
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
