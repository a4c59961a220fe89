"""Mel spectrograms of recordings, in numpy: a few milliseconds on any machine.

The transforms are FFTs of whole frames. `layers.vocoder.Stft` computes short transforms with a hop of a quarter as
products, which for 1920 points are a thousand times the work. They are in double precision: a bin may be 10^8 times
weaker than its neighbor. The filters' sums have positive terms only, which single precision keeps.

Frames go in blocks that stay in the cache, and several threads share long recordings. Filters go in bands of few bins:
each product is then too small for BLAS to take threads of its own, which spin while they wait for each other, and take
many times as long beside other work.

Source: Slaney, "Auditory Toolbox", Interval Research 1998-010 (the mel scale and its filters of equal area, as
librosa's).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from models.native.processors import cpu_count

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

# Slaney's scale: linear to 1 kHz at 200/3 Hz a mel, from there 27 mels for each factor of 6.4.
_LINEAR = 200 / 3
_KNEE = 1000.0
_OCTAVE = math.log(6.4) / 27

_BLOCK = 250  # frames at a time
_BANDS = 16
_SHARE = 500  # frames that a thread takes: fewer do not pay


@dataclass(frozen=True, slots=True)
class MelBank:
    """Mel filters over frames of `n_fft` samples (periodic Hann), `hop` apart; `edge` samples mirror both ends."""

    rate: int
    n_fft: int
    hop: int
    mels: int
    edge: int
    high: float = 8000.0

    def spectrogram(self, pcm: Floats, change: Callable[[Doubles], Doubles] = lambda power: power) -> Floats:
        """Return the filters' sums of the power spectrum of pcm [N], N > edge: [frames, mels].

        `change` takes blocks of the spectrum [n, n_fft / 2 + 1] and returns what the filters get in their place.
        """
        padded = np.pad(pcm, self.edge, mode="reflect") if self.edge else pcm
        frames = sliding_window_view(padded, self.n_fft)[:: self.hop]
        bands = filter_bands(self.rate, self.n_fft, self.mels, self.high)
        found = np.empty((len(frames), self.mels), np.float32)

        def share(start: int) -> None:
            stop = min(start + _SHARE, len(frames))
            for first in range(start, stop, _BLOCK):
                part = slice(first, min(first + _BLOCK, stop))
                parts = np.fft.rfft(frames[part] * hann(self.n_fft)).view(np.float64)
                parts *= parts
                power = change(parts[:, ::2] + parts[:, 1::2]).astype(np.float32)
                for mels, bins, filters in bands:
                    np.matmul(power[:, bins], filters, out=found[part, mels])

        starts = range(0, len(frames), _SHARE)
        if len(starts) > 1:
            list(_threads().map(share, starts))
        else:
            share(0)
        return found


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cpu_count(), thread_name_prefix="mel")


@lru_cache(maxsize=8)
def filter_bands(rate: int, n_fft: int, mels: int, high: float) -> list[tuple[slice, slice, Floats]]:
    """Return the filters in bands: which of them, their bins, and their weights [bins, mels of the band]."""
    whole = slaney_filters(rate, n_fft, mels, high).astype(np.float32)
    found = []
    for band in np.array_split(np.arange(mels), _BANDS):
        bins = np.flatnonzero(whole[:, band].any(axis=1))
        which, reach = slice(band[0], band[-1] + 1), slice(bins[0], bins[-1] + 1)
        found.append((which, reach, np.ascontiguousarray(whole[reach, which])))
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
