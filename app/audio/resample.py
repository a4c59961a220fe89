"""Channels of a recording mixed to one, and its sample rate converted, piece by piece."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import soxr

MIN_RATE = 8_000
MAX_RATE = 48_000
# Channels cancel where their mean has less than this part of the power that it has of unlike channels.
CANCELLED: Final = 0.1

Samples = npt.NDArray[np.float32]


class Resampler:
    """Converter of mono float32 from one rate (Hz) to another, piece by piece. The pieces join without seams.

    soxr's quality HQ is enough: VHQ cannot be told from it by ear.
    """

    def __init__(self, source: int, target: int) -> None:
        self._stream = None if source == target else soxr.ResampleStream(source, target, 1, dtype="float32")

    def push(self, pcm: Samples, *, last: bool = False) -> Samples:
        """Return the samples that are ready; with `last` also those that the filter still holds."""
        if self._stream is None:
            return pcm
        resampled: Samples = self._stream.resample_chunk(pcm, last=last)
        return resampled


class Mixer:
    """Mean of channels, block by block. Where they cancel, as with opposite phase, the loudest of them."""

    def __init__(self) -> None:
        self._loudest: int | None = None

    def mix(self, samples: Samples) -> Samples:
        """Return samples [n] of samples [n, channels]."""
        mixed: Samples = samples.mean(axis=1)
        if samples.shape[1] == 1 or not len(samples):
            return mixed
        powers = np.square(samples).mean(axis=0)
        if np.square(mixed).mean() * samples.shape[1] < CANCELLED * powers.mean():
            if self._loudest is None:  # another one later might be the first in opposite phase
                self._loudest = int(powers.argmax())
            mixed = samples[:, self._loudest]
        return mixed
