"""Resamplers and spectrograms against the reference's values (make_golden.py); loudness against pyloudnorm's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.chatterbox.reference.front_ends import (
    integrated_loudness,
    kaldi_fbank,
    prompt_mel,
    resample_hann,
    resample_soxr,
    set_loudness,
    token_mel,
    voice_mel,
)
from tests.models.chatterbox.reference.builder import distance, golden, speech

# The reference sums in single precision; in near silence its logarithm shows that.
LOGARITHM = 1e-4


def test_resamplers_equal_those_of_the_reference() -> None:
    """Torchaudio's, and librosa's."""
    for resample, name in ((resample_hann, "hann"), (resample_soxr, "soxr")):
        assert distance(resample(golden()["pcm"], 24_000, 16_000)[::7], golden()[name]) < 1e-6


@pytest.mark.parametrize("resample", [resample_hann, resample_soxr])
@pytest.mark.parametrize(
    ("source", "target", "samples"), [(24_000, 16_000, 10_001), (44_100, 24_000, 999), (8_000, 24_000, 50)]
)
def test_lengths_are_rounded_up(resample: object, source: int, target: int, samples: int) -> None:
    assert callable(resample)
    assert len(resample(np.zeros(samples, np.float32), source, target)) == -(-samples * target // source)


def test_mels_equal_the_reference() -> None:
    pcm = golden()["pcm"]
    low = resample_hann(pcm, 24_000, 16_000)
    assert distance(prompt_mel(pcm)[::8], golden()["prompt_mel"]) < LOGARITHM
    assert distance(token_mel(low)[::8], golden()["token_mel"]) < LOGARITHM
    assert distance(voice_mel(low)[::8], golden()["voice_mel"]) < 1e-6
    assert distance(kaldi_fbank(low)[::8], golden()["fbank"]) < LOGARITHM


def test_silence_is_finite() -> None:
    silence = np.zeros(8_000, np.float32)
    assert np.allclose(prompt_mel(silence), np.log(1e-5), atol=1e-3)
    assert np.allclose(token_mel(silence), -1.5)
    assert np.allclose(kaldi_fbank(silence), 0, atol=1e-6)


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
