"""Measures of speech: word errors against a text, level, DC, clipping and the level of pauses. Pure numpy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Audio = npt.NDArray[np.float32]

FLOOR_DBFS = -120.0
CLIPPED = 0.999


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation, apostrophes kept."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("’", "'"))


def word_errors(spoken: Sequence[str], heard: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions that turn `spoken` into `heard`."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(spoken, 1):
        before = row
        row = [i]
        for j, other in enumerate(heard, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other)))
    return row[-1]


def dbfs(audio: Audio) -> float:
    """RMS level of float audio in decibels of full scale (a constant 1.0 is 0 dBFS), at least -120."""
    if not len(audio):
        return FLOOR_DBFS
    power = float(np.mean(np.square(audio, dtype=np.float64)))
    return max(FLOOR_DBFS, 10 * np.log10(power)) if power > 0 else FLOOR_DBFS


def log_spectral_distance(first: Audio, second: Audio, *, frame: int = 1024, hop: int = 256) -> float:
    """Mean root mean square distance of the power spectra in dB, over the frames within 40 dB of the loudest.

    Power below -60 dB of the strongest number counts as that. Raises ValueError for audio of different lengths.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} samples cannot be compared")
    window = np.hanning(frame)
    spectra = [
        np.abs(np.fft.rfft(np.lib.stride_tricks.sliding_window_view(audio, frame)[::hop] * window)) ** 2
        for audio in (first, second)
    ]
    floor = float(spectra[0].max()) * 1e-6
    decibels = [10 * np.log10(spectrum + floor) for spectrum in spectra]
    power = spectra[0].sum(axis=1)
    distances = np.sqrt(np.mean((decibels[0] - decibels[1]) ** 2, axis=1))
    return float(distances[power > power.max() * 1e-4].mean())


def pauses(
    audio: Audio, sample_rate: int, phonemes: str, ends: Sequence[float], *, shortest: float = 0.1
) -> list[Audio]:
    """The inner halves of the pauses: leading silence, and punctuation inside the utterance.

    `ends` are the seconds at which each phoneme ends. The leading silence is taken as the first 100 ms. Punctuation
    of less than `shortest` seconds is no pause. Closing punctuation is left out: the last sound still rings in it.
    """
    found = [audio[: round(0.1 * sample_rate)]]
    last = len(phonemes.rstrip(',.;:!?—…"()“” '))
    for i in range(1, min(last, len(ends))):
        start, end = ends[i - 1], ends[i]
        if phonemes[i] in ",;:—…" and end - start >= shortest:
            quarter = (end - start) / 4
            found.append(audio[round((start + quarter) * sample_rate) : round((end - quarter) * sample_rate)])
    return found


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels over many utterances: speech and loudest pause in dBFS, largest |sample| and |mean|, clipped samples."""

    level: float
    peak: float
    dc: float
    clipped: int
    pause_median: float
    pause_loudest: float


def levels_of(utterances: Sequence[Audio], silences: Sequence[Audio]) -> Levels:
    """Levels over all utterances; `silences` are pieces of them that should be silent."""
    quiet = [dbfs(piece) for piece in silences]
    return Levels(
        level=dbfs(np.concatenate(utterances)),
        peak=max(float(np.abs(audio).max()) for audio in utterances),
        dc=max(abs(float(audio.mean(dtype=np.float64))) for audio in utterances),
        clipped=sum(int((np.abs(audio) >= CLIPPED).sum()) for audio in utterances),
        pause_median=float(np.median(quiet)) if quiet else FLOOR_DBFS,
        pause_loudest=max(quiet, default=FLOOR_DBFS),
    )
