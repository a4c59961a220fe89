"""Resamplers and spectrograms against the reference's values (make_golden.py), and where ports of them went wrong."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.reference.fbank import kaldi_fbank
from models.chatterbox.reference.mel import prompt_mel, token_mel, voice_mel
from models.chatterbox.reference.resample import resample_hann, resample_soxr
from models.layers.mel import slaney_filters
from tests.models.chatterbox.reference.builder import distance, encoder, golden

# The reference sums in single precision; in near silence its logarithm shows that.
LOGARITHM = 1e-4


def test_hann_resampler_equals_torchaudio() -> None:
    assert distance(resample_hann(golden()["pcm"], 24_000, 16_000)[::7], golden()["hann"]) < 1e-6


def test_soxr_resampler_equals_librosa() -> None:
    assert distance(resample_soxr(golden()["pcm"], 24_000, 16_000)[::7], golden()["soxr"]) < 1e-6


@pytest.mark.parametrize("resample", [resample_hann, resample_soxr])
@pytest.mark.parametrize(
    ("source", "target", "samples"), [(24_000, 16_000, 10_001), (44_100, 24_000, 999), (8_000, 24_000, 50)]
)
def test_lengths_are_rounded_up(resample: object, source: int, target: int, samples: int) -> None:
    assert callable(resample)
    assert len(resample(np.zeros(samples, np.float32), source, target)) == -(-samples * target // source)


@pytest.mark.parametrize("resample", [resample_hann, resample_soxr])
def test_a_tone_stays_itself(resample: object) -> None:
    assert callable(resample)
    found = resample(np.sin(np.arange(24_000) * (2 * np.pi * 440 / 24_000)).astype(np.float32), 24_000, 16_000)
    wanted = np.sin(np.arange(16_000) * (2 * np.pi * 440 / 16_000))
    assert np.abs(found - wanted)[200:-200].max() < 2e-3


def test_the_two_resamplers_differ_where_the_speaker_encoder_listens() -> None:
    """Trap: ports that resample with another filter than the Hann sinc turn the speaker vector."""
    # Gains below and above the new Nyquist frequency: Hann's window lets the highest octave fade, and fold.
    for frequency, gains in ((7000, (0.815, 1.0)), (8500, (0.289, 0.0))):
        tone = np.sin(np.arange(24_000) * (2 * np.pi * frequency / 24_000)).astype(np.float32)
        for resample, gain in zip((resample_hann, resample_soxr), gains, strict=True):
            found = np.std(resample(tone, 24_000, 16_000)[500:-500]) / np.std(tone)
            assert found == pytest.approx(gain, abs=3e-3)
    features = [kaldi_fbank(resample(golden()["pcm"], 24_000, 16_000)) for resample in (resample_hann, resample_soxr)]
    assert np.abs(features[0] - features[1])[:, :70].max() < 0.05
    assert np.abs(features[0] - features[1])[:, 76:].max() > 1.0
    vectors = [np.array(encoder().speaker(mx.array(each)[None]))[0] for each in features]
    assert distance(vectors[0], golden()["speaker"]) < 1e-4
    assert distance(vectors[1], golden()["speaker"]) > 5e-4


def test_mels_equal_the_reference() -> None:
    pcm = golden()["pcm"]
    low = resample_hann(pcm, 24_000, 16_000)
    assert distance(prompt_mel(pcm)[::8], golden()["prompt_mel"]) < LOGARITHM
    assert distance(token_mel(low)[::8], golden()["token_mel"]) < LOGARITHM
    assert distance(voice_mel(low)[::8], golden()["voice_mel"]) < 1e-6
    assert distance(kaldi_fbank(low)[::8], golden()["fbank"]) < LOGARITHM


def test_frames_per_second() -> None:
    """S3Gen's frames are not centered on the hop, and the tokenizer's last is dropped: 2 a token, and 4."""
    assert prompt_mel(np.zeros(48_000, np.float32)).shape == (100, 80)
    assert token_mel(np.ones(32_000, np.float32)).shape == (200, 128)
    assert voice_mel(np.zeros(32_000, np.float32)).shape == (201, 40)
    assert kaldi_fbank(np.zeros(32_000, np.float32)).shape == (198, 80)


def test_silence_is_finite() -> None:
    silence = np.zeros(8_000, np.float32)
    assert np.allclose(prompt_mel(silence), np.log(1e-5), atol=1e-3)
    assert np.allclose(token_mel(silence), -1.5)
    assert np.allclose(kaldi_fbank(silence), 0, atol=1e-6)


def test_the_token_mel_spans_eight_decades() -> None:
    found = token_mel(golden()["pcm"])
    assert found.max() - found.min() == pytest.approx(2.0)


def test_filters_have_equal_area() -> None:
    """Slaney's normalization: HTK's triangles of equal height would weigh 8 kHz ten times as much."""
    filters = slaney_filters(24_000, 1920, 80, 8000.0)
    area = filters.sum(axis=0) * 24_000 / 1920
    assert np.allclose(area, 1.0, atol=0.15)
    assert not filters[int(8000 / 12.5) + 1 :].any()
