"""Loudness against pyloudnorm's values, FFmpeg's meter and the standard's definition."""

from __future__ import annotations

import math

import av
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


def _ffmpeg(pcm: np.ndarray, rate: int) -> float:
    """The integrated loudness that FFmpeg's ebur128 reads."""
    graph = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=rate, format="flt", layout="mono", time_base=f"1/{rate}")
    meter = graph.add("ebur128", "metadata=1")
    sink = graph.add("abuffersink")
    source.link_to(meter)
    meter.link_to(sink)
    graph.configure()
    frame = av.AudioFrame.from_ndarray(pcm[None], format="flt", layout="mono")
    frame.sample_rate = rate
    graph.push(frame)
    graph.push(None)
    read = math.nan
    while True:
        try:
            read = float(graph.pull().metadata.get("lavfi.r128.I", read))
        except (av.error.BlockingIOError, av.error.EOFError):
            return read


@pytest.mark.parametrize("pcm", [speech(8, 24_000), np.concatenate([speech(4, 24_000), np.zeros(96_000, np.float32)])])
def test_speech_reads_as_with_ffmpeg(pcm: np.ndarray) -> None:
    """With four seconds of silence, which the gates leave out."""
    assert integrated_loudness(pcm, 24_000) == pytest.approx(_ffmpeg(pcm, 24_000), abs=0.2)


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
