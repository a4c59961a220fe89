"""Removal of the silence that a model speaks before and after a sentence, as the audio streams."""

from __future__ import annotations

from typing import Final

import numpy as np

from models.contract import Pcm

# Seconds kept before the first sound of a stream, before that of a sentence that follows another, and after the last.
LEAD: Final = 0.020
LEAD_BETWEEN: Final = 0.150
TRAIL: Final = 0.150
# Sound is a short window whose root mean square exceeds this part of the loudest sample, -46 dB. The bounds are for a
# silent piece and a quiet voice. An f or h rises slowly: it begins at _ONSET of that level.
_PART: Final = 0.005
_ONSET: Final = 0.4
_QUIETEST, _LOUDEST = 5e-4, 2e-3
_WINDOW: Final = 0.005


class Trimmer:
    """Trimmer of one sentence's silence, piece by piece. A sentence without any sound stays whole."""

    def __init__(self, sample_rate: int, lead: float = LEAD) -> None:
        """`lead`: seconds of silence to keep before the first sound."""
        self.cut = 0
        """Samples that were cut from the beginning."""
        self._window = max(1, round(_WINDOW * sample_rate))
        self._lead, self._trail = round(lead * sample_rate), round(TRAIL * sample_rate)
        self._begun = False
        self._held: Pcm = np.zeros(0, np.float32)

    def push(self, pcm: Pcm, *, last: bool) -> Pcm:
        """Return the samples that can be sent, perhaps none: silence is held back until sound or the end follows it."""
        piece = np.concatenate((self._held, pcm)) if self._held.size else pcm
        sound = self._sound(piece)
        if sound is None:
            end, keep = 0, piece.size if not self._begun else self._trail
        else:
            start, end = sound
            if not self._begun:
                self._begun = True
                self.cut = max(0, start - self._lead)
                piece, end = piece[self.cut :], end - self.cut
            keep = end + self._trail
        if last:
            return piece[:keep]
        self._held = piece[end:]
        return piece[:end]

    def _sound(self, pcm: Pcm) -> tuple[int, int] | None:
        """Return the first sample of sound in `pcm` and the end of the last, to a window; None if there is no sound."""
        if not pcm.size:
            return None
        level = float(np.clip(_PART * np.abs(pcm).max(), _QUIETEST, _LOUDEST))
        power = np.add.reduceat(np.square(pcm), np.arange(0, pcm.size, self._window))
        loud = np.flatnonzero(power > level * level * self._window)
        if not loud.size:
            return None
        start = int(loud[0])
        while start and power[start - 1] > (_ONSET * level) ** 2 * self._window:
            start -= 1
        return start * self._window, min(pcm.size, (int(loud[-1]) + 1) * self._window)
