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


@pytest.mark.parametrize(("sign", "expected"), [(1.0, 0.0), (-1.0, math.pi)])
def test_phase_of_real_bins(sign: float, expected: float) -> None:
    """Trap: a negative value at DC or Nyquist has the phase +pi, never -pi, whatever rounding leaves beside it."""
    layer = Stft(20, 5)
    constant = mx.full((1, 100), sign)
    alternating = mx.array([[sign * (-1) ** n for n in range(100)]])
    dc = np.array(layer.analyze(constant))[0, :, layer.bins]
    assert np.allclose(dc, expected, atol=1e-6)
    # Frames start at even and odd samples in turn, so that their value at Nyquist alternates.
    nyquist = np.array(layer.analyze(alternating))[0, :, -1]
    even = np.arange(len(nyquist)) % 2 == 0
    assert np.allclose(nyquist[even], expected, atol=1e-6)
    assert np.allclose(nyquist[~even], math.pi - expected, atol=1e-6)


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
