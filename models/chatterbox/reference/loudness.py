"""Integrated loudness (ITU-R BS.1770-4) of mono pcm. Turbo's recordings are set to a fixed one.

Weighting by the two biquads of pyloudnorm, which the reference package uses (Bristow-Johnson's cookbook: a shelf of
4 dB at 1.5 kHz, a high pass at 38 Hz), then blocks of 400 ms every 100, gated at -70 LUFS and at 10 below their mean.
The biquads are applied as a product of spectra: their responses die out within the silence appended.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from models.layers.mel import Doubles, Floats

BLOCK = 0.4  # seconds
_STEP = 0.25  # of a block
_SILENCE = -70.0  # LUFS
_OFFSET = -0.691
_TAIL = 0.25  # seconds after which the slower biquad, of 4 ms, is below any rounding

Pair = tuple[list[float], list[float]]


def set_loudness(pcm: Floats, rate: int, target: float) -> Floats:
    """Set the loudness of pcm [N] at `rate` Hz to `target` LUFS; leave it if no block is louder than -70 LUFS."""
    loudness = integrated_loudness(pcm, rate)
    return pcm * np.float32(10 ** ((target - loudness) / 20)) if math.isfinite(loudness) else pcm


def integrated_loudness(pcm: Floats, rate: int) -> float:
    """Return the gated loudness in LUFS of pcm [N] at `rate` Hz, N at least a block; minus infinity for silence."""
    weighted = _weight(pcm.astype(np.float64), rate)
    count = int(np.round((len(pcm) / rate - BLOCK) / (BLOCK * _STEP))) + 1
    starts = np.arange(count) * _STEP
    first = (BLOCK * starts * rate).astype(int)
    last = np.minimum((BLOCK * (starts + 1) * rate).astype(int), len(pcm))
    energy = np.concatenate([[0.0], np.cumsum(weighted**2)])
    power = (energy[last] - energy[first]) / (BLOCK * rate)
    loud = power >= 10 ** ((_SILENCE - _OFFSET) / 10)
    if not loud.any():
        return -math.inf
    gate = power[loud].mean() / 10
    return _OFFSET + 10 * math.log10(power[loud & (power > gate)].mean())


def _weight(pcm: Doubles, rate: int) -> Doubles:
    size = 1 << (len(pcm) + int(_TAIL * rate)).bit_length()
    turn = np.exp(-2j * math.pi * np.fft.rfftfreq(size))
    response: npt.NDArray[np.complex128] = np.ones_like(turn)
    for above, below in (_shelf(4.0, 1500.0, rate), _high_pass(0.5, 38.0, rate)):
        response *= np.polynomial.polynomial.polyval(turn, above) / np.polynomial.polynomial.polyval(turn, below)
    found: Doubles = np.fft.irfft(np.fft.rfft(pcm, size) * response, size)[: len(pcm)]
    return found


def _shelf(gain: float, frequency: float, rate: int) -> Pair:
    """Return a high shelf of `gain` dB, Q 1 / sqrt(2): coefficients above and below the line, of z^0, z^-1, z^-2."""
    a, w = 10 ** (gain / 40), 2 * math.pi * frequency / rate
    cosine, slope = math.cos(w), 2 * math.sqrt(a) * math.sin(w) / math.sqrt(2)
    above = [a * (a + 1 + (a - 1) * cosine + slope), -2 * a * (a - 1 + (a + 1) * cosine)]
    below = [a + 1 - (a - 1) * cosine + slope, 2 * (a - 1 - (a + 1) * cosine)]
    return [*above, a * (a + 1 + (a - 1) * cosine - slope)], [*below, a + 1 - (a - 1) * cosine - slope]


def _high_pass(q: float, frequency: float, rate: int) -> Pair:
    w = 2 * math.pi * frequency / rate
    cosine, alpha = math.cos(w), math.sin(w) / (2 * q)
    half = (1 + cosine) / 2
    return [half, -2 * half, half], [1 + alpha, -2 * cosine, 1 - alpha]
