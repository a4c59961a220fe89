"""Mel spectrograms against their definition in double precision, whole frames at once."""

from __future__ import annotations

import numpy as np
import pytest

from models.layers.mel import MelBank, hann, slaney_filters


def plain(bank: MelBank, pcm: np.ndarray) -> np.ndarray:
    padded = np.pad(pcm.astype(np.float64), bank.edge, mode="reflect")
    starts = range(0, len(padded) - bank.n_fft + 1, bank.hop)
    frames = np.stack([padded[start : start + bank.n_fft] for start in starts])
    power = np.abs(np.fft.rfft(frames * hann(bank.n_fft))) ** 2
    found: np.ndarray = power @ slaney_filters(bank.rate, bank.n_fft, bank.mels, bank.high)
    return found


@pytest.mark.parametrize(
    "bank", [MelBank(16_000, 400, 160, 80, 0), MelBank(16_000, 400, 160, 128, 200), MelBank(24_000, 1920, 480, 80, 720)]
)
@pytest.mark.parametrize("seconds", [0.1, 1.0, 12.0])
def test_weak_bins_beside_a_loud_tone(bank: MelBank, seconds: float) -> None:
    """Some are 10^10 times weaker; the longest recording is shared out to threads."""
    at = np.arange(int(seconds * bank.rate)) / bank.rate
    noise = np.random.RandomState(0).standard_normal(len(at))
    pcm = (0.9 * np.sin(2 * np.pi * 440 * at) + 1e-5 * noise).astype(np.float32)
    found, wanted = bank.spectrogram(pcm), plain(bank, pcm)
    assert wanted.max() > 1e9 * wanted.min()
    assert found.shape == wanted.shape
    assert found == pytest.approx(wanted, rel=2e-6)
