"""Two resamplers, each used where the reference uses it: the encoders' results depend on it.

librosa's (soxr, high quality) brings a recording to 24 kHz and, for T3's prompt and its voice encoder, to 16 kHz.
torchaudio's (a sinc cut off by a Hann window, whose transition band starts well below the lower Nyquist frequency)
makes the 16 kHz for S3Gen's tokenizer and speaker encoder: with another one the speaker vector is another.

Sources: librosa 0.11 core/audio.py `resample`; torchaudio 2.11 functional.py `resample`, after Smith, "Digital Audio
Resampling", ccrma.stanford.edu/~jos/resample.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import soxr
from numpy.lib.stride_tricks import sliding_window_view

Floats = npt.NDArray[np.float32]

_ZEROS = 6  # zero crossings of the sinc on either side
_ROLLOFF = 0.99  # of the lower Nyquist frequency


def resample_soxr(pcm: Floats, source: int, target: int) -> Floats:
    """Resample pcm [N] from `source` to `target` Hz -> [ceil(N * target / source)]."""
    if source == target:
        return pcm
    size = -(-len(pcm) * target // source)
    found: Floats = soxr.resample(pcm, source, target, quality="HQ")[:size]
    return np.pad(found, (0, size - len(found)))


def resample_hann(pcm: Floats, source: int, target: int) -> Floats:
    """Resample pcm [N] from `source` to `target` Hz -> [ceil(N * target / source)]; silence beyond both ends."""
    if source == target:
        return pcm
    common = math.gcd(source, target)
    step, phases = source // common, target // common
    kernel, width = _hann_kernel(step, phases)
    padded = np.pad(pcm, (width, width + step))
    rows = sliding_window_view(padded, len(kernel))[::step]
    found: Floats = (rows @ kernel).reshape(-1)
    return found[: -(-len(pcm) * phases // step)]


@lru_cache(maxsize=8)
def _hann_kernel(step: int, phases: int) -> tuple[Floats, int]:
    """Return taps [K, phases] for each output phase of `step` input samples, and how many precede the first."""
    cutoff = min(step, phases) * _ROLLOFF
    width = math.ceil(_ZEROS * step / cutoff)
    offsets = np.arange(-width, width + step) / step
    # The phases are divided in single precision, as the reference does.
    starts = (np.arange(0, -phases, -1, dtype=np.float32) / np.float32(phases)).astype(np.float64)
    at = np.clip((starts[:, None] + offsets) * cutoff, -_ZEROS, _ZEROS)
    taps = np.sinc(at) * np.cos(at * (math.pi / _ZEROS / 2)) ** 2 * (cutoff / step)
    return np.ascontiguousarray(taps.T.astype(np.float32)), width
