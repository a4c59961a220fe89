"""STFT and its inverse against PyTorch's values (tests/golden/make_layers.py)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx
from models.layers.vocoder import Stft
from tests.golden.layer_cases import STFT
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden


@pytest.mark.parametrize("extra", [0, 35])
@pytest.mark.parametrize("name", STFT)
def test_analysis_equals_torch(name: str, extra: int) -> None:
    """Phase within 1e-4 where the magnitude is above 0.05 (below, rounding turns it), the real bins' exactly.

    With `extra` samples of rubbish behind the signal, reflection is about the signal's own last sample.
    """
    magnitude, phase, ends = checks.analysis(STFT[name], golden("analysis", name), extra)
    assert magnitude < TOLERANCE
    assert phase < 1e-4
    assert ends < 1e-6


@pytest.mark.parametrize("extra", [0, 9])
@pytest.mark.parametrize("name", STFT)
def test_synthesis_equals_torch(name: str, extra: int) -> None:
    assert checks.synthesis(STFT[name], golden("synthesis", name), extra) < TOLERANCE


def test_the_first_frame_is_real() -> None:
    """Reflection makes frame 0 symmetric about its center: its phase is 0 or +pi and nothing between."""
    x = mx.random.normal((1, 200), key=mx.random.key(0))
    layer = Stft(20, 5)
    first = np.array(layer.analyze(x))[0, 0, layer.bins :]
    assert np.allclose(np.minimum(np.abs(first), np.abs(first - math.pi)), 0, atol=1e-6)
    assert first.min() >= 0


def test_hop_is_a_quarter() -> None:
    with pytest.raises(ValueError, match="hop must be n_fft / 4, not 10 for 20"):
        Stft(20, 10)
