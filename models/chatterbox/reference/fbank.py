"""Kaldi's log filterbanks, CAM++'s input: frames of 25 ms every 10, whole ones only, without dither.

Source: torchaudio 2.11 compliance/kaldi.py `fbank` with its defaults but 80 bins, itself after Kaldi's
feat/feature-fbank.cc; chatterbox 0.1.7 models/s3gen/xvector.py `extract_feature`. Pcm is not scaled to 16 bits.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.layers.mel import Doubles, Floats

_RATE, _FRAME, _HOP, _POINTS = 16_000, 400, 160, 512
_LOW = 20.0
_EMPHASIS = 0.97
_FLOOR = float(np.finfo(np.float32).eps)


def kaldi_fbank(pcm: Floats, mels: int = 80) -> Floats:
    """Transform 16 kHz pcm [N], N >= 400, to [1 + (N - 400) // 160, mels], each bin's mean over time removed."""
    frames = sliding_window_view(pcm.astype(np.float64), _FRAME)[::_HOP]
    frames = frames - frames.mean(axis=1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    # Povey's window: Hann's to a power, without its wide skirts.
    window = (0.5 - 0.5 * np.cos(2 * math.pi * np.arange(_FRAME) / (_FRAME - 1))) ** 0.85
    spectrum = np.fft.rfft((frames - _EMPHASIS * before) * window, _POINTS)
    power = spectrum.real**2 + spectrum.imag**2
    log = np.log(np.maximum(power @ _filters(mels), _FLOOR))
    found: Floats = (log - log.mean(axis=0)).astype(np.float32)
    return found


@lru_cache(maxsize=4)
def _filters(mels: int) -> Doubles:
    """Return triangles equally wide in mels (1127 ln(1 + f / 700)), of height one: [257, mels]; none at Nyquist."""

    low, high = (1127.0 * math.log1p(frequency / 700.0) for frequency in (_LOW, _RATE / 2))
    corners = np.linspace(low, high, mels + 2)
    bins = 1127.0 * np.log1p(np.arange(_POINTS // 2 + 1) * (_RATE / _POINTS) / 700.0)[:, None]
    rising = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    found: Doubles = np.maximum(0.0, np.minimum(rising, falling))
    return found
