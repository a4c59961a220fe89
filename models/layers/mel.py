"""Mel spectrograms of recordings, in numpy: a few milliseconds on any machine.

The transforms are FFTs of whole frames. `layers.vocoder.Stft` computes short transforms with a hop of a quarter as
products, which for 1920 points are a thousand times the work. Sums are in double precision, so that only the
reference's rounding makes a difference.

Source: Slaney, "Auditory Toolbox", Interval Research 1998-010 (the mel scale and its filters of equal area, as
librosa's).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

# Slaney's scale: linear to 1 kHz at 200/3 Hz a mel, from there 27 mels for each factor of 6.4.
_LINEAR = 200 / 3
_KNEE = 1000.0
_OCTAVE = math.log(6.4) / 27


@dataclass(frozen=True, slots=True)
class MelBank:
    """Mel filters over frames of `n_fft` samples (periodic Hann), `hop` apart; `edge` samples mirror both ends."""

    rate: int
    n_fft: int
    hop: int
    mels: int
    edge: int
    high: float = 8000.0

    def power(self, pcm: Floats) -> Doubles:
        """Return the power spectrum [frames, n_fft / 2 + 1] of pcm [N], N > edge."""
        padded = np.pad(pcm.astype(np.float64), self.edge, mode="reflect")
        spectrum = np.fft.rfft(sliding_window_view(padded, self.n_fft)[:: self.hop] * hann(self.n_fft))
        found: Doubles = spectrum.real**2 + spectrum.imag**2
        return found

    def apply(self, spectrum: Doubles) -> Doubles:
        """Apply the filters: [frames, bins] -> [frames, mels]."""
        found: Doubles = spectrum @ slaney_filters(self.rate, self.n_fft, self.mels, self.high)
        return found


@lru_cache(maxsize=8)
def hann(size: int) -> Doubles:
    """Return the periodic Hann window [size]."""
    return 0.5 - 0.5 * np.cos(2 * math.pi * np.arange(size) / size)


@lru_cache(maxsize=8)
def slaney_filters(rate: int, n_fft: int, mels: int, high: float) -> Doubles:
    """Return triangles of equal area from 0 to `high` Hz: [n_fft / 2 + 1, mels]."""
    top = high / _LINEAR if high < _KNEE else _KNEE / _LINEAR + math.log(high / _KNEE) / _OCTAVE
    at = np.linspace(0.0, top, mels + 2)
    knee = _KNEE / _LINEAR
    corners = np.where(at < knee, at * _LINEAR, _KNEE * np.exp(_OCTAVE * (at - knee)))
    bins = np.arange(n_fft // 2 + 1)[:, None] * (rate / n_fft)
    rising = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    found: Doubles = np.maximum(0.0, np.minimum(rising, falling)) * (2 / (corners[2:] - corners[:-2]))
    return found
