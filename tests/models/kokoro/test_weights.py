"""Strict loading of every layout, on tiny random checkpoints; and config.json."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten

from models.backend import mx
from models.checkpoint import read_arrays
from models.contract import ModelSpec, WeightsError
from models.kokoro.config import KokoroConfig, load_config
from models.kokoro.network import Kokoro
from models.kokoro.pipeline import load
from tests.models.kokoro import builder
from tests.models.kokoro.builder import TINY, build, tiny_config, to_mx, write_config

GOLDEN = Path(__file__).parents[2] / "golden"
ALBERT = "bert.encoder.albert_layer_groups.0.albert_layers.0"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> KokoroConfig:
    return tiny_config(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="module")
def official() -> dict[str, np.ndarray]:
    return builder.official_arrays(TINY, seed=0)


def parameters(network: Kokoro) -> dict[str, np.ndarray]:
    """Every parameter by name."""
    return {name: np.array(array) for name, array in tree_flatten(network.parameters())}


def assert_equal(found: Kokoro, expected: Kokoro, tolerance: float = 0.0) -> None:
    """Bit for bit, or within `tolerance` relative to an array's largest number: packing adds and subtracts."""
    ours, theirs = parameters(found), parameters(expected)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert np.allclose(array, theirs[name], rtol=0, atol=tolerance * np.abs(theirs[name]).max()), name


@pytest.fixture(scope="module")
def expected(config: KokoroConfig, official: dict[str, np.ndarray]) -> Kokoro:
    return build(config, to_mx(official))


def test_official_file(config: KokoroConfig, expected: Kokoro) -> None:
    """As torch.save wrote it: five state dicts, `module.` prefixes, bert.pooler, half precision."""
    arrays = read_arrays(GOLDEN / "tiny.pth")
    assert "bert.module.pooler.weight" in arrays
    assert all(".module." in name for name in arrays)
    assert_equal(build(config, arrays), expected)


def test_community_safetensors(config: KokoroConfig, official: dict[str, np.ndarray], expected: Kokoro) -> None:
    arrays = builder.community_arrays(official)
    assert "text_encoder.lstm.Wx_forward" in arrays
    assert arrays["decoder.generator.noise_convs.0.weight"].shape == (8, 12, 22)
    # Folding weight norm, channels-last, sums in another order.
    assert_equal(build(config, to_mx(arrays)), expected, tolerance=1e-6)


def test_own_safetensors(
    tmp_path: Path, config: KokoroConfig, official: dict[str, np.ndarray], expected: Kokoro
) -> None:
    mx.save_safetensors(str(tmp_path / "own.safetensors"), builder.own_arrays(config, official))
    assert_equal(build(config, read_arrays(tmp_path / "own.safetensors")), expected)


def test_weight_norm_in_torchs_newer_names(
    config: KokoroConfig, official: dict[str, np.ndarray], expected: Kokoro
) -> None:
    names = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}
    renamed = {}
    for name, array in official.items():
        head, _, leaf = name.rpartition(".")
        renamed[f"{head}.{names.get(leaf, leaf)}"] = array
    assert_equal(build(config, to_mx(renamed)), expected)


def test_weight_norm_is_folded_once(official: dict[str, np.ndarray], expected: Kokoro) -> None:
    """Trap: recomputed at every call. No unfolded array is left, and the folded one is g v / |v|."""
    assert not [name for name in parameters(expected) if name.endswith(("_g", "_v"))]
    v, g = (official[f"decoder.asr_res.0.weight_{leaf}"] for leaf in "vg")
    folded = g * v / np.sqrt((v**2).sum(axis=(1, 2), keepdims=True))
    layer = expected.decoder.asr_res[0]
    taps = layer(mx.eye(folded.shape[1])[None])[0] - layer.bias
    assert np.allclose(np.array(taps), folded[:, :, 0].T, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("decoder.encode.conv1.weight_g", None, "decoder.encode.conv1.weight_v without its weight_g"),
        ("decoder.encode.conv1.weight_v", None, "decoder.encode.conv1.weight_g without its weight_v"),
        ("decoder.generator.noise_res.1.alpha2.2", None, "missing decoder.generator.noise_res.1.alpha2.2"),
        ("predictor.lstm.bias_hh_l0_reverse", None, "missing predictor.lstm.bias_hh_l0_reverse"),
        ("decoder.decode.4.conv1.weight", np.ones((2, 2)), r"unexpected decoder.decode.4.conv1.weight \(2, 2\)"),
        ("text_encoder.lstm.weight_ih_l1", np.ones((2, 2)), r"unexpected text_encoder.lstm.weight_ih_l1 \(2, 2\)"),
        # A linear layer is not transposed to fit.
        (f"{ALBERT}.ffn.weight", np.ones((16, 24)), r"ffn.weight has shape \(16, 24\), not \(24, 16\)"),
    ],
)
def test_what_does_not_fit_is_named(
    config: KokoroConfig, official: dict[str, np.ndarray], name: str, value: np.ndarray | None, reported: str
) -> None:
    """Beside what test_contract.py has of every family."""
    arrays = {key: array for key, array in {**official, name: value}.items() if array is not None}
    with pytest.raises(WeightsError, match=f"arrays: .*{reported}"):
        build(config, to_mx(arrays))


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("decoder.encode.norm1.norm.weight", 1.0, True),
        ("decoder.encode.norm1.norm.bias", 0.0, True),
        ("decoder.generator.resblocks.0.adain1.0.norm.weight", 1.0, True),
        ("decoder.encode.norm1.norm.weight", 1.5, False),
        ("predictor.F0.0.norm2.norm.bias", 0.1, False),
        ("decoder.generator.resblocks.0.adain1.0.norm.weight", 0.0, False),
    ],
)
def test_instance_norm_has_no_affine_of_its_own(
    config: KokoroConfig, official: dict[str, np.ndarray], name: str, value: float, accepted: bool
) -> None:
    """The reference's modules carry one (1 and 0) that the official file leaves out."""
    arrays = to_mx({**official, name: np.full(8, value, dtype=np.float32)})
    if accepted:
        build(config, arrays)
    else:
        with pytest.raises(WeightsError, match=f"{name} is not [01] everywhere"):
            build(config, arrays)


def test_a_whole_checkpoint_from_files(tmp_path: Path) -> None:
    """config.json, an official .pth and a folder of official voices."""
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices/af_heart.pt").write_bytes((GOLDEN / "tiny.pt").read_bytes())
    (tmp_path / "voices/am_adam.pt").write_bytes((GOLDEN / "tiny.pt").read_bytes())
    write_config(tmp_path)
    files = {"config": "config.json", "voices": "voices"}
    spec = {role: str(tmp_path / name) for role, name in files.items()} | {"weights": str(GOLDEN / "tiny.pth")}
    model = load(ModelSpec("tiny", "kokoro", spec))
    assert [(voice.id, voice.gender) for voice in model.voices] == [("af_heart", "female"), ("am_adam", "male")]
    assert (model.default_voice, model.max_phonemes) == ("af_heart", 510)
    assert model.symbols == frozenset(TINY["vocab"])


def test_a_file_with_names_of_an_earlier_version_is_refused(
    config: KokoroConfig, official: dict[str, np.ndarray]
) -> None:
    former = {**official, "bert.attention.qkv.weight": np.ones((48, 16), dtype=np.float32)}
    with pytest.raises(WeightsError, match="names of an earlier version of this program"):
        build(config, to_mx(former))


# What the official file says of the widths that its package hard-codes: nothing.
OFFICIAL = {key: value for key, value in TINY.items() if key not in ("decoder_dim", "residual_dim")}


def test_the_official_keys(tmp_path: Path) -> None:
    """Widths that the reference hard-codes have its values; the text encoder is as deep as n_layer."""
    config = load_config(write_config(tmp_path, OFFICIAL))
    assert (config.decoder_dim, config.residual_dim, config.text_encoder_layers) == (1024, 64, 2)
    assert (config.plbert.hidden_size, config.istftnet.samples_per_step, config.max_phonemes) == (16, 300, 510)
    assert config.istftnet.resblock_dilation_sizes == ((1, 3, 5),) * 3


def test_named_widths(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, {**TINY, "text_encoder_layers": 5}))
    assert (config.decoder_dim, config.residual_dim, config.text_encoder_layers) == (20, 4, 5)


def test_what_it_speaks_is_declared(tmp_path: Path) -> None:
    """The official file says nothing of it: its voices' names do."""
    official = load_config(write_config(tmp_path, OFFICIAL))
    assert (official.languages, official.voices) == ((), {})
    said = {"languages": ["en-us", "es"], "voices": {"ada": {"gender": "female"}}}
    config = load_config(write_config(tmp_path, {**TINY, **said}))
    assert (config.languages, config.voices) == (("en-us", "es"), {"ada": {"gender": "female"}})


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
