"""Streaming conversion of the sample rate with soxr. Its quality HQ is enough: VHQ cannot be told from it by ear."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

MIN_RATE = 8_000
MAX_RATE = 48_000


class Resampler:
    """Converter of mono float32 from one rate (Hz) to another, piece by piece. The pieces join without seams."""

    def __init__(self, source: int, target: int) -> None:
        self._stream = None if source == target else soxr.ResampleStream(source, target, 1, dtype="float32")

    def push(self, pcm: npt.NDArray[np.float32], *, last: bool = False) -> npt.NDArray[np.float32]:
        """Return the samples that are ready; with `last` also those that the filter still holds."""
        if self._stream is None:
            return pcm
        resampled: npt.NDArray[np.float32] = self._stream.resample_chunk(pcm, last=last)
        return resampled
