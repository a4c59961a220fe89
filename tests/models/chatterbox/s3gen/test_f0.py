"""The pitch predictor."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import f0
from models.layers.conv import PaddingMask
from tests.models.chatterbox.s3gen import naive


@pytest.mark.parametrize("frames", [1, 2, 5, 40])
def test_definition(frames: int) -> None:
    """Convolutions, ELU and the magnitude of a dense layer."""
    mel = naive.mel(frames)
    found = np.array(naive.lowered().f0_predictor(mel, PaddingMask()))
    expected = np.array(naive.pitch(naive.small(), mel))
    assert found.shape == (1, frames)
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-3)
    assert found.min() >= 0
    assert frames < 40 or found.std() > 1, "a constant pitch would compare to anything"


def test_reach() -> None:
    """A frame's pitch depends on exactly REACH frames on either side."""
    network, mel = naive.lowered(), np.array(naive.mel(41))
    changed = mel.copy()
    changed[0, 20] += 1
    differs = np.array(
        network.f0_predictor(mx.array(mel), PaddingMask()) != network.f0_predictor(mx.array(changed), PaddingMask())
    )[0]
    assert np.flatnonzero(differs).tolist() == list(range(20 - f0.REACH, 21 + f0.REACH))


def test_padding_changes_nothing() -> None:
    network, mel = naive.lowered(), naive.mel(30)
    padded = mx.concatenate([mel, mx.full((1, 9, naive.MELS), 7.0)], axis=1)
    found = np.array(network.f0_predictor(padded, PaddingMask.of(mx.array([[[30]]]), 39)))[:, :30]
    assert np.allclose(found, np.array(network.f0_predictor(mel, PaddingMask())), rtol=1e-5, atol=1e-4)
