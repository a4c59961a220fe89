"""Tune at the end of a clause: pitch, energy and pause, and how likely each mark is by them.

Pitch is the strongest peak of the normalized autocorrelation (Boersma 1993, without its path search). The marks'
probabilities come from a multinomial logistic regression that `training.ear.prosody` fits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from models.layers.mel import Floats
from models.whisper.features import FRAMES_A_SECOND, HOP, SAMPLE_RATE

MARKS = ("", ",", ".", "?", "!")  # that may follow a word
_LOWEST, _HIGHEST = 60, 400  # Hz
_WINDOW = 640  # samples: more than two periods of the lowest pitch
_FFT = 2048
_BLOCK = 1000  # frames that are transformed at a time
_VOICED = 0.55  # of the autocorrelation at no lag
_SHORT_LAGS = 0.02  # advantage, an octave, of the shorter of two lags
_QUIET = 25.0  # dB below loud frames
_TAIL = 50  # voiced frames before the end of a clause
_ENDING = 8  # of them, its very end
_FEW = 5  # voiced frames without which there is no tune
_MAX_PAUSE_SECONDS = 0.5  # seconds: longer ones are as this
_MIN_PAUSE_SECONDS = 0.06

FEATURES = (
    "pitch_slope", "ending_slope", "last_pitch", "highest_pitch", "pitch_range",
    "energy_slope", "accent", "last_voiced", "pause",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tune:
    """Frames of 10 ms of a window: `pitch` in semitones from the speaker's median, NaN where there is no voice.

    `energy` is in dB, `quiet` tells pauses.
    """

    pitch: Floats
    energy: Floats
    quiet: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClauseEnd:
    """Tune of a clause end: FEATURES, and the seconds of the pause behind it."""

    features: npt.NDArray[np.float64]
    pause: float


def tune(pcm: Floats) -> Tune:
    """Return the tune of pcm [N] at SAMPLE_RATE, of N // 160 frames."""
    count = len(pcm) // HOP
    padded = np.pad(pcm.astype(np.float32), (_WINDOW // 2, _WINDOW))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[: count * HOP : HOP]
    hertz = np.full(count, np.nan, np.float32)
    energy = np.zeros(count, np.float32)
    for start in range(0, count, _BLOCK):
        part = slice(start, start + _BLOCK)
        hertz[part], energy[part] = _analyze(frames[part])
    quiet = energy < (np.percentile(energy, 95) - _QUIET if count else 0)
    hertz[quiet] = np.nan
    voiced = hertz[~np.isnan(hertz)]
    median = np.median(voiced) if len(voiced) else 1.0
    return Tune(12 * np.log2(hertz / median), energy, quiet)


def _analyze(frames: Floats) -> tuple[Floats, Floats]:
    """Return pitch in Hz, NaN where there is none, and energy in dB of frames [n, _WINDOW]."""
    window = np.hanning(_WINDOW).astype(np.float32)
    x = (frames - frames.mean(axis=1, keepdims=True)) * window
    energy = 10 * np.log10(np.mean(x * x, axis=1) + 1e-10)
    own = np.fft.irfft(np.abs(np.fft.rfft(window, _FFT)) ** 2)
    first, last = SAMPLE_RATE // _HIGHEST, SAMPLE_RATE // _LOWEST
    correlation = np.fft.irfft(np.abs(np.fft.rfft(x, _FFT)) ** 2)[:, : last + 2]
    ratio = correlation / np.maximum(correlation[:, :1], 1e-9) / (own[: last + 2] / own[0])
    lags = np.arange(first, last + 1)
    scores = ratio[:, first : last + 1] - _SHORT_LAGS * np.log2(lags / first)
    peak = (ratio[:, first : last + 1] >= ratio[:, first - 1 : last]) & (
        ratio[:, first : last + 1] > ratio[:, first + 1 : last + 2]
    )
    best = np.where(peak, scores, -np.inf).argmax(axis=1)
    at = np.arange(len(frames)), best + first
    before, top, after = ratio[at[0], at[1] - 1], ratio[at], ratio[at[0], at[1] + 1]
    bend = before - 2 * top + after
    shift = np.where(np.abs(bend) > 1e-9, (before - after) / 2 / np.where(np.abs(bend) > 1e-9, bend, 1), 0)
    hertz = SAMPLE_RATE / (at[1] + np.clip(shift, -1, 1))
    voiced = peak[at[0], best] & (top > _VOICED)
    return np.where(voiced, hertz, np.nan).astype(np.float32), energy.astype(np.float32)


def clause_end(found: Tune, start: float, word: float, end: float | None) -> ClauseEnd | None:
    """Return the tune of the clause whose last word begins at `word`; None where too little of it has a voice.

    Args:
        found: Of the window.
        start: Second at which the clause begins.
        word: Second at which its last word begins.
        end: Second at which the next word begins; None: there is none.
    """
    first, last_word = round(start * FRAMES_A_SECOND), round(word * FRAMES_A_SECOND)
    stop = len(found.quiet) if end is None else min(len(found.quiet), round(end * FRAMES_A_SECOND))
    loud = np.flatnonzero(~found.quiet[last_word:stop])
    if not len(loud):
        return None
    # The longest silence behind the word's beginning is the pause: closures of consonants are shorter.
    edges = np.append(loud, stop - last_word)
    gaps = np.diff(edges) - 1
    widest = len(gaps) - 1 if end is None else int(gaps.argmax())
    pause = _MAX_PAUSE_SECONDS if end is None else gaps[widest] / FRAMES_A_SECOND
    if pause >= _MIN_PAUSE_SECONDS:
        stop = last_word + int(loud[widest]) + 1
    pitch = found.pitch[first:stop]
    voiced = np.flatnonzero(~np.isnan(pitch))[-_TAIL:]
    if len(voiced) < _FEW:
        return None
    tail, energy = pitch[voiced].astype(np.float64), found.energy[first:stop][voiced].astype(np.float64)
    seconds = voiced / FRAMES_A_SECOND
    loudness = found.energy[~found.quiet]
    runs = np.flatnonzero(np.diff(voiced) > 2)
    low, high = np.percentile(tail, [10, 90])
    return ClauseEnd(
        np.array([
            _slope(seconds, tail),
            _slope(seconds[-_ENDING:], tail[-_ENDING:]),
            np.median(tail[-_ENDING:]),
            high,
            high - low,
            _slope(seconds, energy),
            (energy.max() - loudness.mean()) / max(float(loudness.std()), 1.0),
            (len(voiced) - (runs[-1] + 1 if len(runs) else 0)) / FRAMES_A_SECOND,
            min(pause, _MAX_PAUSE_SECONDS),
        ]),
        float(pause),
    )  # fmt: skip


def _slope(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Return the median slope of all pairs of points (Theil and Sen)."""
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[j] - y[i]) / (x[j] - x[i])))


@dataclass(frozen=True, slots=True)
class MarkModel:
    """Logistic regression of MARKS by FEATURES, all marks equally frequent, and how much it counts.

    Features are limited to `low` and `high` [F], shifted by `mean` and divided by `deviation` [F]. `weights` are
    [5, 2 * F]: each feature has another one where it lies above its mean, as a rise tells more than a fall. `bias` is
    [5]. `scale` multiplies its log-probabilities; a mark must lead by `margin` nats to replace another.
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    scale: float
    margin: float

    def inputs(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return what the weights multiply, [..., 2 * F], of features [..., F]."""
        x = (np.clip(features, self.low, self.high) - self.mean) / self.deviation
        return np.concatenate([x, np.maximum(x, 0)], axis=-1)

    def logprobs(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the log-probability of each of MARKS by features [..., F]: [..., 5]."""
        scores = self.inputs(features) @ self.weights.T + self.bias
        scores -= scores.max(axis=-1, keepdims=True)
        found: npt.NDArray[np.float64] = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        return found

    def choose(self, mark: str, text: npt.NDArray[np.float64], features: npt.NDArray[np.float64]) -> str:
        """Return the likeliest of MARKS by text and tune; `mark`, which is there, unless another leads by the margin.

        `text` are the decoder's log-probabilities [5], `features` [F] those of the clause end. A mark that is there may
        become another one, not none: many commas have neither pause nor tune.
        """
        scores = text + self.scale * self.logprobs(features)
        if mark:
            scores[0] = -np.inf
        best = int(scores.argmax())
        return MARKS[best] if scores[best] - scores[MARKS.index(mark)] > self.margin else mark


@cache
def mark_model() -> MarkModel:
    """Return the regression of `prosody.json`, which `training.ear.prosody` writes."""
    values = json.loads(files("models.whisper").joinpath("prosody.json").read_text(encoding="utf-8"))
    arrays = {name: np.array(values[name]) for name in ("low", "high", "mean", "deviation", "weights", "bias")}
    return MarkModel(**arrays, scale=values["scale"], margin=values["margin"])
