"""Samples as bytes; and silence around speech: 20 and 100 ms are kept, however the audio is divided."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest

from app.audio.pcm import LEAD, TRAIL, Coding, Trimmer, frame_bytes, frames, to_int16, wav_header
from models.contract import Pcm

RATE = 24_000
FLOOR = 2e-4


def test_full_scale_is_symmetric_and_clipped() -> None:
    samples = to_int16(np.array([1.0, -1.0, 1.5, -7.0, 0.0], np.float32))
    assert samples.tolist() == [32767, -32767, 32767, -32767, 0]
    assert samples.dtype == np.dtype("<i2")


def test_rounds_to_nearest_not_toward_zero() -> None:
    step = 1 / 32767
    assert to_int16(np.array([0.6 * step, -0.6 * step, 0.4 * step], np.float32)).tolist() == [1, -1, 0]


def test_what_is_not_a_number_is_silence() -> None:
    assert to_int16(np.array([np.nan, np.inf, -np.inf], np.float32)).tolist() == [0, 32767, -32767]


@pytest.mark.parametrize(
    ("coding", "width", "channels"), [("pcm", 2, 1), ("pcm", 2, 2), ("pcm24", 3, 2), ("pcm32", 4, 2)]
)
def test_wav_header_of_known_length_is_read_by_the_standard_library(coding: Coding, width: int, channels: int) -> None:
    data = bytes(range(width * channels)) * 10
    with wave.open(io.BytesIO(wav_header(44_100, 10, coding, channels) + data)) as wav:
        found = (wav.getnchannels(), wav.getsampwidth(), wav.getframerate(), wav.getnframes())
        assert found == (channels, width, 44_100, 10)
        assert wav.readframes(20) == data
    assert frame_bytes(coding, channels) == width * channels


def test_wav_header_of_unknown_length_says_so() -> None:
    header = wav_header(16_000, None)
    assert len(header) == 44
    assert struct.unpack("<I", header[4:8])[0] == struct.unpack("<I", header[40:44])[0] == 0xFFFFFFFF


@pytest.mark.parametrize("size", [1, 3, 10, 11])
def test_frames_join_to_the_whole(size: int) -> None:
    data = bytes(range(10))
    cut = list(frames(data, size))
    assert b"".join(cut) == data
    assert max(map(len, cut)) <= size


def test_frames_of_nothing_are_none() -> None:
    assert list(frames(b"", 4)) == []


def noise(seconds: float, level: float, seed: int = 0) -> Pcm:
    drawn = np.random.default_rng(seed).uniform(-1, 1, round(seconds * RATE))
    return (drawn * level * np.sqrt(3)).astype(np.float32)


def utterance(before: float, after: float, level: float = 0.1, floor: float = FLOOR) -> Pcm:
    pause = noise(0.4, floor, 2)
    speech = np.concatenate([noise(0.5, level, 1), pause, noise(0.3, level, 3)])
    return np.concatenate([noise(before, floor, 4), speech, noise(after, floor, 5)])


def trimmed(pcm: Pcm, size: int | None = None, lead: float = LEAD) -> tuple[Pcm, int]:
    """Return the part of `pcm` that is sent, fed in pieces of `size`, and the number of samples cut before it."""
    trimmer, size = Trimmer(RATE, lead), size or pcm.size
    starts = range(0, pcm.size, size)
    sent = [trimmer.push(pcm[at : at + size], last=at == starts[-1]) for at in starts]
    return np.concatenate(sent), trimmer.cut


@pytest.mark.parametrize("size", [None, 100, 997, 4_800, 20_000])
@pytest.mark.parametrize(("before", "after"), [(0.25, 0.4), (0.02, 0.15), (0, 0), (1.3, 2.0)])
def test_silence_is_cut_and_sound_is_not(before: float, after: float, size: int | None) -> None:
    pcm = utterance(before, after)
    sent, cut = trimmed(pcm, size)
    window = 0.0051
    assert max(0, before - LEAD - window) <= cut / RATE <= max(0, before - LEAD) + 1 / RATE
    assert np.array_equal(sent, pcm[cut : cut + sent.size])
    assert min(after, TRAIL) - window <= sent.size / RATE - (before - cut / RATE) - 1.2 <= min(after, TRAIL) + window


@pytest.mark.parametrize(("before", "fill", "cut"), [(0.4, False, 0.05), (0.1, False, 0), (0.1, True, -0.25)])
def test_a_sentence_after_another_keeps_a_pause(before: float, fill: bool, cut: float) -> None:
    trimmer = Trimmer(RATE, 0.35, fill=fill)
    sent = trimmer.push(utterance(before, 0.4), last=True)
    assert trimmer.cut / RATE == pytest.approx(cut, abs=0.006)
    assert trimmer.lead / RATE == pytest.approx(before - cut, abs=0.006)
    assert (sent.size - trimmer.tail) / RATE == pytest.approx(before - cut + 1.2, abs=0.006)
    assert trimmer.tail / RATE == pytest.approx(TRAIL, abs=0.006)


@pytest.mark.parametrize("size", [None, 500, 4_800])
@pytest.mark.parametrize(("level", "breath"), [(0.1, -53), (0.1, -60), (0.3, -48), (0.03, -64)])
def test_a_breath_after_the_last_word_is_cut(level: float, breath: float, size: int | None) -> None:
    pcm = np.concatenate([utterance(0.2, 0, level=level, floor=1e-5), noise(0.6, 10 ** (breath / 20), 7)])
    sent, cut = trimmed(pcm, size)
    assert (sent.size + cut) / RATE - 1.4 == pytest.approx(TRAIL, abs=0.006)


def test_a_weak_consonant_at_the_end_is_kept() -> None:
    """An f that falls for 100 ms to -60 dBFS: it fades within the 100 ms that are kept."""
    fall = noise(0.1, 1.0) * np.geomspace(1e-2, 1e-3, round(0.1 * RATE)).astype(np.float32)
    sent, cut = trimmed(np.concatenate([utterance(0.2, 0, level=0.1, floor=1e-5), fall, noise(0.5, 1e-5)]))
    assert (sent.size + cut) / RATE - 1.4 > 0.1


def test_sound_is_sent_at_once_and_silence_held_back() -> None:
    trimmer = Trimmer(RATE)
    assert trimmer.push(noise(0.3, FLOOR), last=False).size == 0
    first = trimmer.push(noise(0.5, 0.1), last=False)
    assert first.size == pytest.approx((0.5 + LEAD) * RATE, abs=130)
    assert trimmer.push(noise(0.3, FLOOR), last=False).size == 0
    resumed = trimmer.push(noise(0.2, 0.1), last=False)
    assert resumed.size == pytest.approx(0.5 * RATE, abs=130)
    assert trimmer.push(noise(0.1, FLOOR), last=False).size == 0
    assert trimmer.push(noise(0.9, FLOOR), last=True).size == pytest.approx(TRAIL * RATE, abs=130)


@pytest.mark.parametrize("level", [0, 1e-4])
@pytest.mark.parametrize("size", [None, 1_000])
def test_silence_alone_stays_whole(level: float, size: int | None) -> None:
    pcm = noise(1.0, level)
    sent, cut = trimmed(pcm, size)
    assert cut == 0 and np.array_equal(sent, pcm)


def test_a_soft_onset_is_kept() -> None:
    """A fricative that rises for 60 ms to -40 dBFS: all of it that exceeds -60 dBFS."""
    rise = noise(0.06, 1.0) * np.geomspace(2e-4, 1e-2, round(0.06 * RATE)).astype(np.float32)
    pcm = np.concatenate([noise(0.2, FLOOR), rise, noise(0.5, 0.1)])
    _, cut = trimmed(pcm)
    audible = 0.2 + 0.06 * np.log(1e-3 / 2e-4) / np.log(1e-2 / 2e-4)
    assert 0.15 < cut / RATE <= audible


@pytest.mark.parametrize("gain", [0.1, 0.5, 2.0])
def test_a_quiet_voice_is_cut_as_a_loud_one(gain: float) -> None:
    pcm = utterance(0.3, 0.3, level=0.1, floor=5e-5)
    assert trimmed(pcm * np.float32(gain))[1] == pytest.approx(trimmed(pcm)[1], abs=130)
