"""Parts of the three networks; test_conditioning.py compares the whole with the reference."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.reference.front_ends import resample_hann, token_mel, voice_mel
from models.chatterbox.reference.tokenizer import quantize
from models.chatterbox.reference.voice_encoder import trim, windows
from tests.models.chatterbox.reference.builder import encoder, golden, speech
from tests.models.whisper.builder import drain


def _low() -> np.ndarray:
    return resample_hann(golden()["pcm"], 24_000, 16_000)


def tokens(mel: np.ndarray) -> np.ndarray:
    """All that `encode` returns in the end."""
    found: np.ndarray = drain(encoder().tokenizer.encode(mel))
    return found


@pytest.mark.parametrize(
    ("frames", "count"),
    [(1, 1), (160, 1), (204, 1), (205, 2), (237, 2), (281, 2), (282, 3), (1000, 12)],
)
def test_windows_are_left_out_where_mostly_padding(frames: int, count: int) -> None:
    mel = np.arange(frames * 2, dtype=np.float32).reshape(frames, 2) + 1
    found = windows(mel)
    assert found.shape == (count, 160, 2)
    for k in range(count):
        part = mel[77 * k : 77 * k + 160]
        assert np.array_equal(found[k, : len(part)], part)
        assert not found[k, len(part) :].any()


def test_silence_at_both_ends_is_trimmed() -> None:
    """20 dB below the loudest 128 ms, in steps of 512 samples; silence in the middle stays."""
    loud = np.sin(np.arange(8_000) * 0.3).astype(np.float32)
    quiet = loud * np.float32(0.05)
    found = trim(np.concatenate([quiet, loud, quiet, loud, quiet]))
    # A frame of 2048 samples is heard when a hundredth of its power is.
    assert abs(len(found) - 24_000) < 2 * 2048
    assert np.abs(found[:512]).max() < 0.06, "the edge is where a frame begins to reach into the sound"
    assert np.array_equal(trim(loud), loud)


def test_a_voice_is_what_is_heard_of_it() -> None:
    """Silence around the speech changes nothing: its windows are not among those averaged."""
    network, low = encoder().voice_encoder, trim(_low())
    around = np.concatenate([np.zeros(4 * 512 * 20, np.float32), low, np.zeros(40_000, np.float32)])
    assert float(network.embed(around) @ network.embed(low)) > 1 - 1e-4
    everything = np.array(network(mx.array(windows(voice_mel(around))))).mean(axis=0)
    assert float(network.embed(around) @ everything) / np.linalg.norm(everything) < 1 - 1e-3


def test_the_first_dimension_is_the_last_digit() -> None:
    levels = np.full((3, 8), -9.0, np.float32)
    levels[1, 0], levels[2, 7] = 0.0, 9.0
    assert np.array(quantize(mx.array(levels))).tolist() == [0, 1, 2 * 3**7]
    # Half of tanh's range, less a thousandth, is where a level ends.
    edge = float(np.arctanh(0.5 / 0.999))
    row = np.full((2, 8), -9.0, np.float32)
    row[:, 0] = edge - 1e-4, edge + 1e-4
    assert np.array(quantize(mx.array(row))).tolist() == [1, 2]


@pytest.mark.parametrize("frames", [1, 4, 5, 399])
def test_four_frames_a_token_rounded_up(frames: int) -> None:
    assert len(tokens(np.zeros((frames, 128), np.float32))) == -(-frames // 4)


def test_long_speech_is_cut_into_overlapping_windows() -> None:
    """Thirty seconds in one window; of an overlap of four seconds, each window gives its half."""
    mel = token_mel(speech(34, 16_000))
    found = tokens(mel)
    first, second = tokens(mel[:3000]), tokens(mel[2600:])
    assert len(found) == 850
    assert np.array_equal(found[:700], first[:700])
    assert np.array_equal(found[700:], second[50:])
