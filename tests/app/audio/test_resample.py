import numpy as np
import pytest
import soxr

from app.audio.resample import Resampler


@pytest.mark.parametrize("target", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_pieces_join_to_the_whole_conversion(target: int) -> None:
    time = np.arange(24_000) / 24_000
    tone = (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    resampler = Resampler(24_000, target)
    pieces = [resampler.push(tone[start : start + 1234]) for start in range(0, tone.size, 1234)]
    pieces.append(resampler.push(np.empty(0, np.float32), last=True))
    joined = np.concatenate(pieces)
    assert abs(joined.size - target) <= 2
    whole = soxr.resample(tone, 24_000, target)
    size = min(joined.size, whole.size)
    assert np.abs(joined[:size] - whole[:size]).max() < 1e-3
    spectrum = np.abs(np.fft.rfft(joined * np.hanning(joined.size)))
    assert np.argmax(spectrum) * target / joined.size == pytest.approx(440, abs=2)


def test_the_same_rate_changes_nothing() -> None:
    pcm = np.random.default_rng(0).uniform(-1, 1, 500).astype(np.float32)
    assert np.array_equal(Resampler(24_000, 24_000).push(pcm, last=True), pcm)
