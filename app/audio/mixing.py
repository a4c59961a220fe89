"""Channels of a recording, mixed to one."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

# Channels cancel where their mean has less than this part of the power that it has of unlike channels.
CANCELLED: Final = 0.1


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
