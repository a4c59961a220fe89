"""Loudness against pyloudnorm's values and the standard's definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.chatterbox.reference.loudness import integrated_loudness, set_loudness
from tests.models.chatterbox.reference.builder import golden, speech


def _tone(rate: int, level: float = 1.0) -> np.ndarray:
    return (level * np.sin(np.arange(3 * rate) * (2 * np.pi * 997 / rate))).astype(np.float32)


@pytest.mark.parametrize("rate", [24_000, 48_000])
def test_a_full_tone_has_the_standards_loudness(rate: int) -> None:
    """BS.1770-4: 0 dBFS at 997 Hz in one channel reads -3.01; the cookbook's shelf is 0.06 dB higher there."""
    assert integrated_loudness(_tone(rate), rate) == pytest.approx(-3.01, abs=0.1)
    assert integrated_loudness(_tone(rate, 0.1), rate) == pytest.approx(-23.01, abs=0.1)


def test_values_of_pyloudnorm() -> None:
    """Read with pyloudnorm 0.2.0's `Meter(rate).integrated_loudness`."""
    pcm = golden()["pcm"]
    assert integrated_loudness(pcm, 24_000) == pytest.approx(-25.1731134, abs=1e-5)
    quiet = np.concatenate([pcm, pcm * np.float32(0.003), 0 * pcm])
    assert integrated_loudness(quiet, 16_000) == pytest.approx(-25.4368494, abs=1e-5)


def test_it_is_set() -> None:
    pcm = speech(6, 24_000)
    assert integrated_loudness(set_loudness(pcm, 24_000, -27.0), 24_000) == pytest.approx(-27.0, abs=1e-3)
    assert set_loudness(pcm, 24_000, -27.0).dtype == np.float32


def test_silence_is_left_alone() -> None:
    silence = np.zeros(24_000, np.float32)
    assert integrated_loudness(silence, 24_000) == -math.inf
    assert set_loudness(silence, 24_000, -27.0) is silence
