"""Streaming sample-rate conversion (soxr, very high quality is not audible here: HQ)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

MIN_RATE = 8_000
MAX_RATE = 48_000


class Resampler:
    """Mono float32 from one rate to another, piece by piece; the pieces join without seams."""

    def __init__(self, source: int, target: int) -> None:
        self._stream = None if source == target else soxr.ResampleStream(source, target, 1, dtype="float32")

    def push(self, pcm: npt.NDArray[np.float32], *, last: bool = False) -> npt.NDArray[np.float32]:
        """Return what can be said so far; with `last` also what the filter still holds."""
        if self._stream is None:
            return pcm
        resampled: npt.NDArray[np.float32] = self._stream.resample_chunk(pcm, last=last)
        return resampled
