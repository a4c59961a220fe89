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
        name = re.sub(r"^source\.merge", "m_source.l_linear", ours)
        name = re.sub(r"^(pre|post)\.", r"conv_\1.", name)
        name = re.sub(r"^f0\.convs\.(\d+)", lambda m: f"f0_predictor.condnet.{2 * int(m[1])}", name)
        name = name.replace("f0.out", "f0_predictor.classifier")
        name = re.sub(r"^source_blocks\.", "source_resblocks.", name)
        name = re.sub(r"^blocks\.(\d+)\.(\d+)", lambda m: f"resblocks.{3 * int(m[1]) + int(m[2])}", name)
        for which, number in (("first", 1), ("second", 2)):
            name = re.sub(rf"\.{which}\.(\d+)\.conv", rf".convs{number}.\1", name)
            name = re.sub(rf"\.{which}\.(\d+)\.alpha", rf".activations{number}.\1.alpha", name)
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
        ("mel2wav.conv_pre.bias", None, r"missing pre\.bias"),
        ("mel2wav.conv_pre.bias", mx.zeros((3,)), r"pre\.bias has shape \(3,\), not \(32,\)"),
        ("mel2wav.resblocks.4.activations1.1.alpha", None, r"missing blocks\.1\.1\.first\.1\.alpha"),
        ("mel2wav.resblocks.9.activations1.1.alpha", mx.zeros((4,)), r"unexpected blocks\.3\.0\.first\.1\.alpha"),
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
