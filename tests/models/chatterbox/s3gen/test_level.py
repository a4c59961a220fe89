"""The start faded, the end cut, the loudness held: on synthetic signals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.chatterbox.s3gen.level import cut_end, fade_in, loudest, mel_level, steady_gain

RATE = 24_000


def noise(seconds: float, db: float, seed: int = 0) -> np.ndarray:
    """White noise at `db` below full scale."""
    return (np.random.RandomState(seed).standard_normal(round(seconds * RATE)) * 10 ** (db / 20)).astype(np.float32)


def speech(syllables: list[tuple[float, float, float]], db: float) -> np.ndarray:
    """Syllables (seconds, dB below the loudest, seconds of closure before) after a loud one, over a floor 60 below."""
    parts = [noise(0.2, db, 1)]
    for k, (seconds, below, closure) in enumerate(syllables):
        parts += [noise(closure, db - 60, k), noise(seconds, db - below, k)]
    return np.concatenate(parts)


def test_the_start_is_silent_then_rises() -> None:
    """As the reference: 480 zeros, 480 samples of a raised cosine, the rest as it was; in pieces as in one."""
    pcm = noise(0.1, -20)
    faded = fade_in(pcm, 0)
    rise = (np.cos(np.linspace(np.pi, 0, 480)) + 1) / 2
    assert not faded[:480].any()
    assert np.allclose(faded[480:960], pcm[480:960] * rise, atol=1e-7)
    assert np.array_equal(faded[960:], pcm[960:])
    pieces = [fade_in(pcm[a:b], a) for a, b in ((0, 100), (100, 700), (700, 2400))]
    assert np.array_equal(np.concatenate(pieces), faded)
    assert len(fade_in(pcm[:0], 0)) == 0


@settings(max_examples=60, deadline=None)
@given(
    syllables=st.lists(st.tuples(st.floats(0.04, 0.3), st.floats(0, 33), st.floats(0, 0.25)), max_size=5),
    db=st.floats(-40, -10),
    tail=st.floats(0, 1.5),
    below=st.floats(50, 90),
)
def test_speech_is_never_cut(syllables: list[tuple[float, float, float]], db: float, tail: float, below: float) -> None:
    """Bit for bit, down to 33 dB below the loudest and after closures of a quarter second; the hiss after it is."""
    spoken = speech(syllables, db)
    pcm = np.concatenate([spoken, noise(tail, db - below, 9)])
    cut = cut_end(pcm, loudest(pcm))
    assert len(cut) >= len(spoken)
    assert np.array_equal(cut[: len(spoken)], spoken)
    assert len(cut) <= len(spoken) + 0.17 * RATE
    assert len(cut) == len(pcm) or abs(cut[-1]) < 1e-6


@pytest.mark.parametrize(("pause", "burst", "below", "goes"), [
    (0.5, 0.05, 30.0, True),
    (0.35, 0.12, 30.0, True),
    (0.2, 0.05, 30.0, False),  # the release of a stop
    (0.5, 0.3, 30.0, False),  # too long: a soft word
    (0.5, 0.05, 15.0, False),  # too loud: a short word
])  # fmt: skip
def test_a_click_after_the_speech(pause: float, burst: float, below: float, goes: bool) -> None:
    spoken = noise(0.6, -20)
    pcm = np.concatenate([spoken, noise(pause, -80), noise(burst, -20 - below), noise(0.3, -80)])
    cut = cut_end(pcm, loudest(pcm))
    assert (len(cut) < len(spoken) + 0.17 * RATE) == goes
    if not goes:
        kept = round((0.6 + pause + burst) * RATE)
        assert np.array_equal(cut[:kept], pcm[:kept])


def test_several_clicks_go_one_by_one() -> None:
    click = [noise(0.4, -80), noise(0.03, -50)]
    pcm = np.concatenate([noise(0.5, -20), *click, *click, *click])
    assert len(cut_end(pcm, loudest(pcm))) < 0.67 * RATE


def test_the_last_piece_of_speech_heard_before() -> None:
    """Only the last piece is at hand: what is loud, the pieces before have told."""
    loud = loudest(noise(1, -20))
    assert len(cut_end(noise(1, -80), loud)) == 0.15 * RATE
    assert len(cut_end(noise(1, -30), loud)) == RATE


def test_a_soft_end_of_speech_from_the_piece_before() -> None:
    """A short, soft sound soon after the piece begins may belong to what was spoken before: it stays."""
    loud = loudest(noise(1, -20))
    release = np.concatenate([noise(0.1, -80), noise(0.04, -50), noise(0.5, -80)])
    cut = cut_end(release, loud)
    assert round(0.14 * RATE) < len(cut) < 0.32 * RATE
    assert np.array_equal(cut[: round(0.14 * RATE)], release[: round(0.14 * RATE)])
    late = np.concatenate([noise(0.4, -80), noise(0.04, -50), noise(0.5, -80)])
    assert len(cut_end(late, loud)) == 0.15 * RATE


@pytest.mark.parametrize("pcm", [np.zeros(0, np.float32), np.zeros(RATE, np.float32), noise(1, -90)])
def test_nothing_loud_nothing_cut(pcm: np.ndarray) -> None:
    assert np.array_equal(cut_end(pcm, loudest(pcm)), pcm)


def test_loudest_is_a_mean_of_50_ms() -> None:
    click = np.zeros(RATE, dtype=np.float32)
    click[5000] = 1.0
    assert loudest(click) == pytest.approx(math.sqrt(1 / 1200), rel=1e-3)
    assert loudest(np.concatenate([noise(0.5, -20), noise(0.5, -60)])) == pytest.approx(0.1, rel=0.1)
    assert loudest(np.full(100, 0.5, dtype=np.float32)) == pytest.approx(0.5)


def test_level_of_mel_frames_is_that_of_the_speech() -> None:
    """Pauses do not count; 6 dB more amplitude is 6 dB more level."""
    mel = np.random.RandomState(0).normal(-3, 0.3, (60, 80)).astype(np.float32)
    level, frames = mel_level(mel)
    paused, heard = mel_level(np.concatenate([mel, np.full((40, 80), -11.5, np.float32)]))
    assert (paused, heard) == (level, frames)
    assert frames == 60
    assert mel_level(mel + np.float32(math.log(2)))[0] - level == pytest.approx(20 * math.log10(2), abs=1e-3)
    assert mel_level(mel[:0]) == (-math.inf, 0)


@settings(max_examples=100, deadline=None)
@given(recording=st.floats(-60, 20), sentence=st.floats(-60, 20), frames=st.integers(0, 1000))
def test_the_gain_only_brings_levels_nearer(recording: float, sentence: float, frames: int) -> None:
    db = 20 * math.log10(steady_gain(recording, sentence, frames))
    difference = recording - sentence
    assert abs(db) <= 6.0 + 1e-9
    assert db * difference >= 0
    assert abs(difference - db) >= min(abs(difference), 4.0) - 1e-6, "never nearer than the free range"
    if abs(difference) <= 4.0 or frames == 0:
        assert db == 0


def test_the_gain_is_believed_with_time() -> None:
    gains = [steady_gain(-10, -20, frames) for frames in (0, 5, 25, 100, 10_000)]
    assert gains == sorted(gains)
    assert 20 * math.log10(gains[2]) == pytest.approx(3.0)
    assert 20 * math.log10(gains[-1]) == pytest.approx(6.0, abs=0.02)
    assert steady_gain(-math.inf, -20, 50) == steady_gain(-20, -math.inf, 50) == 1.0
