"""The official names of the vocoder's arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
from mlx.utils import tree_flatten

from models.backend import mx
from models.chatterbox.s3gen.noise import Draw, frame_noise, random_phases
from models.chatterbox.s3gen.vocoder import HiFT, Vocoder
from models.chatterbox.s3gen.vocoder_weights import load_weights
from models.contract import WeightsError
from tests.models.chatterbox.s3gen import naive


def official() -> dict[str, mx.array]:
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


def load(arrays: dict[str, mx.array]) -> HiFT:
    network = HiFT(naive.SMALL, naive.MELS)
    load_weights(network, arrays, "file")
    return network


def test_every_array_finds_its_place() -> None:
    arrays = official()
    assert "mel2wav.resblocks.8.convs2.2.parametrizations.weight.original1" in arrays
    mel, phases, noise = naive.mel(9), random_phases(0, 8), frame_noise(0, Draw.EXCITATION, 0, 9, 480)
    found, expected = (np.array(Vocoder(n)(mel, phases, noise).pcm) for n in (load(arrays), naive.lowered()))
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
def test_strict(name: str, value: mx.array | None, message: str) -> None:
    arrays = {key: array for key, array in official().items() if key != name}
    if value is not None:
        arrays[name] = value
    with pytest.raises(WeightsError, match=message):
        load(arrays)
