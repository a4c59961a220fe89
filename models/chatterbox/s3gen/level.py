"""Level of the samples after the vocoder: fade the start in, cut a noisy end off, hold the loudness.

The reference silences the first 20 ms and fades the next 20 in, so that the recording is not heard (chatterbox 0.1.7,
models/s3gen/s3gen.py). It does neither of the others.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from models.chatterbox.config import SAMPLE_RATE
from models.contract import Pcm
from models.layers.mel import Floats

_FADE = SAMPLE_RATE // 50  # samples of silence, then of fade, at the start
_BLOCK = SAMPLE_RATE // 100  # 10 ms, the unit of judging the end
_LOUD_BLOCKS = 5  # 50 ms: the loudest such stretch is the speech's loudness
# Relative to that loudness: quiet, and a sound so faint that after a pause it is not speech.
QUIET, FAINT = 10 ** (-45 / 20), 10 ** (-25 / 20)
SILENT = 1e-4  # -80 dBFS: quiet however soft the speech
_PAUSE_BLOCKS, _BURST_BLOCKS = 30, 15
_KEPT_BLOCKS, _OUT_BLOCKS = 15, 3  # quiet that is kept after the speech, and its part that fades out
# Loudness: the difference from the recording's that is allowed, the largest correction, and the frames of speech after
# which half of the correction applies.
FREE_DB, MAX_DB, DOUBT_FRAMES = 4.0, 6.0, 25.0
_ACTIVE = 10 ** (-20 / 10)  # of the loudest frame's power: louder frames are speech


_START = np.concatenate([np.zeros(_FADE), (np.cos(np.linspace(math.pi, 0, _FADE)) + 1) / 2]).astype(np.float32)


def fade_in(pcm: Pcm, place: int) -> Pcm:
    """Fade the start of a sentence in: pcm [N], whose first sample is the sentence's sample `place`."""
    curve = _START[place : place + len(pcm)]
    return np.concatenate([pcm[: len(curve)] * curve, pcm[len(curve) :]]) if len(curve) else pcm


def loudest(pcm: Pcm) -> float:
    """Return the root mean square of the loudest 50 ms of pcm [N]; 0 without samples."""
    power = _powers(pcm)
    if not len(power):
        return 0.0
    window = min(_LOUD_BLOCKS, len(power))
    return math.sqrt(np.convolve(power, np.full(window, 1 / window), "valid").max())


def cut_end(pcm: Pcm, loud: float) -> Pcm:
    """Cut the silence or noise at the end of pcm [N] off, and fade it out; `loud` is `loudest` of the sentence.

    Quiet is 45 dB below `loud`. All quiet at the end is cut but for 150 ms. A last sound is cut as well if it comes
    after 300 ms of quiet or more, lasts 150 ms at most, and stays 25 dB below `loud`: it is a click or breath, since a
    word is longer or louder, and a stop's closure shorter. No sample before the last sound that stays changes. Without
    a loud sound nothing is cut.
    """
    power = _powers(pcm)
    if loud <= SILENT or not len(power):
        return pcm
    active = np.flatnonzero(power > max(loud * QUIET, SILENT) ** 2)
    while len(active):
        breaks = np.flatnonzero(np.diff(active) > _PAUSE_BLOCKS)
        # The quiet before a first sound may have begun in an earlier chunk: only its length in this one counts.
        first = active[breaks[-1] + 1] if len(breaks) else active[0]
        pause = first - active[breaks[-1]] - 1 if len(breaks) else first
        burst = power[first : active[-1] + 1]
        if pause < _PAUSE_BLOCKS or len(burst) > _BURST_BLOCKS or burst.max() >= (loud * FAINT) ** 2:
            break
        active = active[active < first]
    end = (int(active[-1]) + 1 if len(active) else 0) + _KEPT_BLOCKS
    if end * _BLOCK >= len(pcm):
        return pcm
    kept = pcm[: end * _BLOCK].copy()
    out = _OUT_BLOCKS * _BLOCK
    kept[-out:] *= ((np.cos(np.linspace(0, math.pi, out)) + 1) / 2).astype(np.float32)
    return kept


def _powers(pcm: Pcm) -> npt.NDArray[np.float64]:
    """Return the mean square of each 10 ms, the last, shorter one included."""
    if not len(pcm):
        return np.zeros(0)
    starts = np.arange(0, len(pcm), _BLOCK)
    sums = np.add.reduceat(np.square(pcm, dtype=np.float64), starts)
    return np.asarray(sums / np.diff(np.append(starts, len(pcm))), dtype=np.float64)


def mel_level(mel: Floats) -> tuple[float, int]:
    """Return the mean power in dB of those frames of mel [F, mels] (natural logarithms) that are speech, and how many.

    Speech is within 20 dB of the loudest frame. (-inf, 0) if there is no frame.
    """
    if not len(mel):
        return -math.inf, 0
    power = np.exp(2 * mel.astype(np.float64)).sum(axis=1)
    active = power[power >= power.max() * _ACTIVE]
    return 10 * math.log10(active.mean()), len(active)


def steady_gain(recording: float, sentence: float, frames: int) -> float:
    """Return the factor that holds a sentence's loudness to its voice's: levels in dB, `frames` of the sentence.

    Levels are of `mel_level`. Within 4 dB the factor is 1, since sentences differ. The rest of a difference is removed,
    up to 6 dB; with few frames, less. Earlier speech does not matter: a sentence sounds the same wherever it stands.
    """
    if frames == 0 or not math.isfinite(recording) or not math.isfinite(sentence):
        return 1.0
    difference = recording - sentence
    beyond = math.copysign(max(0.0, abs(difference) - FREE_DB), difference)
    trusted = frames / (frames + DOUBT_FRAMES)
    return float(10 ** (max(-MAX_DB, min(MAX_DB, beyond)) * trusted / 20))
