"""Log-mel frames: counts, both kinds of silence, and the same numbers in blocks."""

from __future__ import annotations

import numpy as np

from models.chatterbox.reference.front_ends import token_mel
from models.whisper import features
from tests.models.whisper.builder import drain, padded_samples, sound


def test_the_same_transform_as_the_speech_tokenizer() -> None:
    """Chatterbox's tokenizer took its frames from Whisper; that code has goldens of its own."""
    pcm = sound(35)
    found = drain(features.log_mel(pcm, 128))
    assert found.shape == (3500, 128)
    assert found.dtype == np.float32
    assert np.abs(found - token_mel(pcm)).max() < 1e-6


def test_padded_samples_and_padded_features_differ_in_their_silence() -> None:
    pcm = sound(7) + np.float32(0.001)
    samples = drain(padded_samples(pcm, 80, 3000))
    mel = drain(features.recording(pcm, 80, 3000))
    window = features.padded_features(mel, 0, 700, 3000)
    assert samples.shape == window.shape == (3000, 80)
    assert np.array_equal(samples[:690], window[:690])
    assert np.all(samples[705:] == samples.min())
    assert samples.min() < -0.5
    assert not window[700:].any()


def test_long_audio_is_cut() -> None:
    assert drain(padded_samples(sound(3), 80, 200)).shape == (200, 80)
    mel = drain(features.recording(sound(3), 80, 200))
    assert mel.shape == (500, 80)
    assert np.array_equal(features.padded_features(mel, 100, 200, 200), mel[100:300])


def test_it_pauses_every_thirty_seconds() -> None:
    assert sum(1 for _ in features.recording(sound(65), 80, 3000)) == 3  # the silence behind it is not transformed


def test_a_window_is_cut_at_its_quietest_even_frame() -> None:
    # The encoder makes one of two frames.
    for begin in (120, 121):
        mel = np.ones((400, 8), np.float32)
        mel[begin : begin + 20] = 0
        cut = features.quiet_cut(mel, 0, 200)
        assert cut % 2 == 0 and begin <= cut <= begin + 20
    assert features.quiet_cut(mel, 250, 200) == 150
