"""Resamplers and spectrograms against the reference's values (make_golden.py)."""

from __future__ import annotations

import numpy as np
import pytest

from models.chatterbox.reference.front_ends import (
    kaldi_fbank,
    prompt_mel,
    resample_hann,
    resample_soxr,
    token_mel,
    voice_mel,
)
from tests.models.chatterbox.reference.builder import distance, golden

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
