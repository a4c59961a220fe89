"""Official `flow.*` and `mel2wav.*` arrays: all of them, no others, in their shapes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from mlx.utils import tree_flatten

from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.noise import Draw, frame_noise, random_phases
from models.chatterbox.s3gen.vocoder import HiFT, Vocoder
from models.chatterbox.s3gen.weights import flow_shapes, load_flow, load_vocoder, vocoder_shapes
from models.contract import WeightsError
from models.native import kernels
from tests.models.chatterbox.s3gen import naive
from tests.models.chatterbox.s3gen.flow_builder import SMALL, SMALL_TURBO, VARIANTS, arrays

QUERY = "flow.decoder.estimator.mid_blocks.1.1.0.attn1.to_q.weight"
MIXER = "flow.decoder.estimator.time_embed_mixer.weight"


def test_full_size() -> None:
    """About 113 million numbers; Turbo's has one array more."""
    count = {
        name: sum(int(np.prod(shape)) for shape in flow_shapes(config).values()) for name, config in _configs().items()
    }
    assert 105e6 < count["english"] < 120e6
    assert count["turbo"] - count["english"] == 1024 * 2048
    assert set(flow_shapes(TURBO)) - set(flow_shapes(ENGLISH)) == {MIXER}


def _configs() -> dict[str, object]:
    return {"english": ENGLISH, "turbo": TURBO}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", sorted(flow_shapes(SMALL))[::17])
def test_a_missing_array_is_named(name: str, variant: str) -> None:
    given = arrays(VARIANTS[variant])
    del given[name]
    with pytest.raises(WeightsError, match=f"file: missing {name}"):
        load_flow(Flow(VARIANTS[variant]), given, "file")


def test_an_extra_array_is_named() -> None:
    given = arrays(SMALL) | {"flow.encoder.encoders.0.norm_conv.weight": mx.ones((32,))}
    with pytest.raises(WeightsError, match=r"unexpected flow.encoder.encoders.0.norm_conv.weight"):
        load_flow(Flow(SMALL), given, "file")


def test_the_other_variants_weights_are_refused() -> None:
    with pytest.raises(WeightsError, match=f"unexpected {MIXER}"):
        load_flow(Flow(SMALL), arrays(SMALL_TURBO), "file")
    with pytest.raises(WeightsError, match=f"missing {MIXER}"):
        load_flow(Flow(SMALL_TURBO), arrays(SMALL), "file")


def test_a_misshapen_array_is_named() -> None:
    with pytest.raises(WeightsError, match=rf"{QUERY} has shape \(24, 15\), not \(24, 16\)"):
        load_flow(Flow(SMALL), arrays(SMALL) | {QUERY: mx.zeros((24, 15))}, "file")


def test_numbers_that_are_not_floats_are_refused() -> None:
    with pytest.raises(WeightsError, match=rf"{QUERY} is .*int32, not a float type"):
        load_flow(Flow(SMALL), arrays(SMALL) | {QUERY: mx.zeros((24, 16), dtype=mx.int32)}, "file")


def test_other_parts_arrays_are_left_alone_and_any_float_type_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "module", lambda: None)  # which pack the weights in an order of their own
    given = {name: array.astype(mx.float16) for name, array in arrays(SMALL).items()}
    flow = Flow(SMALL)
    load_flow(flow, given | {"mel2wav.conv_pre.bias": mx.zeros((3,))}, "file")
    found = flow.estimator.mid_blocks[1].transformers[0].to_qkv.weight
    assert found.dtype == mx.float32
    assert np.array_equal(np.array(found[:24]), np.array(given[QUERY].astype(mx.float32)))


def vocoder_arrays() -> dict[str, mx.array]:
    """The arrays of naive.small() under the checkpoint's names: weight norm unfolded, channels first."""
    found: dict[str, mx.array] = {"flow.of_another_part": mx.zeros((2,))}
    for ours, value in tree_flatten(naive.small().parameters()):
        name = re.sub(r"condnet\.(\d+)", lambda m: f"condnet.{2 * int(m[1])}", ours)
        array = value.swapaxes(1, 2) if value.ndim == 3 else value
        if array.ndim == 3 and not name.startswith("source_downs"):
            norm = mx.sqrt(mx.sum(array * array, axis=(1, 2), keepdims=True))
            owner = name.removesuffix(".weight")
            found[f"mel2wav.{owner}.parametrizations.weight.original0"] = norm
            found[f"mel2wav.{owner}.parametrizations.weight.original1"] = array * 3.0
        else:
            found[f"mel2wav.{name}"] = array
    return found


def loaded_vocoder(arrays: dict[str, mx.array]) -> HiFT:
    network = HiFT(naive.SMALL, naive.MELS)
    load_vocoder(network, arrays, "file")
    return network


def test_every_array_of_the_vocoder_finds_its_place() -> None:
    arrays = vocoder_arrays()
    assert "mel2wav.resblocks.8.convs2.2.parametrizations.weight.original1" in arrays
    mel, phases, noise = naive.mel(9), random_phases(0, 8), frame_noise(0, Draw.EXCITATION, 0, 9, 480)
    found, expected = (np.array(Vocoder(n)(mel, phases, noise).pcm) for n in (loaded_vocoder(arrays), naive.lowered()))
    assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mel2wav.conv_pre.bias", None, r"missing conv_pre\.bias"),
        ("mel2wav.conv_pre.bias", mx.zeros((3,)), r"conv_pre\.bias has shape \(3,\), not \(32,\)"),
        ("mel2wav.resblocks.4.activations1.1.alpha", None, r"missing resblocks\.4\.activations1\.1\.alpha"),
        (
            "mel2wav.resblocks.9.activations1.1.alpha",
            mx.zeros((4,)),
            r"unexpected resblocks\.9\.activations1\.1\.alpha",
        ),
        ("mel2wav.f0_predictor.condnet.1.bias", mx.zeros((4,)), r"unexpected f0_predictor\.condnet\.1\.bias"),
        ("mel2wav.ups.0.parametrizations.weight.original0", None, r"ups\.0\.weight_v without its weight_g"),
        ("mel2wav.ups.0.parametrizations.weight.original1", None, r"ups\.0\.weight_g without its weight_v"),
    ],
)
def test_the_vocoder_is_strict(name: str, value: mx.array | None, message: str) -> None:
    arrays = {key: array for key, array in vocoder_arrays().items() if key != name}
    if value is not None:
        arrays[name] = value
    with pytest.raises(WeightsError, match=message):
        loaded_vocoder(arrays)


def test_shapes_of_the_vocoder() -> None:
    """Weight normalization stands unfolded in the official file."""
    found = {name: array.shape for name, array in vocoder_arrays().items() if name.startswith("mel2wav.")}
    assert vocoder_shapes(replace(ENGLISH, vocoder=naive.SMALL, mels=naive.MELS)) == found
