"""The pitch predictor."""

from __future__ import annotations

import numpy as np

from models.backend import mx
from models.chatterbox.s3gen import f0
from models.layers.conv import PaddingMask
from tests.models.chatterbox.s3gen import narrow


def test_reach() -> None:
    """A frame's pitch depends on exactly REACH frames on either side."""
    network, mel = narrow.lowered(), np.array(narrow.mel(41))
    changed = mel.copy()
    changed[0, 20] += 1
    differs = np.array(
        network.f0_predictor(mx.array(mel), PaddingMask()) != network.f0_predictor(mx.array(changed), PaddingMask())
    )[0]
    assert np.flatnonzero(differs).tolist() == list(range(20 - f0.REACH, 21 + f0.REACH))


def test_padding_changes_nothing() -> None:
    network, mel = narrow.lowered(), narrow.mel(30)
    padded = mx.concatenate([mel, mx.full((1, 9, narrow.MELS), 7.0)], axis=1)
    found = np.array(network.f0_predictor(padded, PaddingMask.of(mx.array([[[30]]]), 39)))[:, :30]
    assert np.allclose(found, np.array(network.f0_predictor(mel, PaddingMask())), rtol=1e-5, atol=1e-4)
