"""Clock of one session: when audio came, and when translated audio is played. Nothing is played over anything else.

The time of a session counts seconds since its first sample. While audio comes in real time, that is the position in the
audio. A client that stops sending moves on in time and not in its audio; one that sends a recording faster than it was
spoken has sentences that end later than now. `moment` serves all three.
"""

from __future__ import annotations

import bisect
import time
from collections import deque
from collections.abc import Callable
from typing import Final

# Seconds of audio between two marks, and marks that are kept: those of two minutes.
SPACING: Final = 0.05
MARKS: Final = 2_400


class SessionClock:
    """Time of one session, in seconds since its first sample. `position`: seconds of audio that came."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        # Positions, and when their audio was there.
        self._positions: deque[float] = deque(maxlen=MARKS)
        self._moments: deque[float] = deque(maxlen=MARKS)
        self.position = 0.0
        # Time at which all translated audio so far has been played.
        self.played_out = 0.0

    def now(self) -> float:
        """Return the time; 0 before the first sample."""
        return 0.0 if self._began is None else self._clock() - self._began

    def pushed(self, seconds: float) -> None:
        """Note that `seconds` more of audio came, the last of it now."""
        if self._began is None:
            # Its first sample was spoken before its last.
            self._began = self._clock() - seconds
        self.position += seconds
        if not self._positions or self.position - self._positions[-1] >= SPACING:
            self._positions.append(self.position)
            self._moments.append(self.now())

    def arrival(self, position: float) -> float:
        """Return the time at which the audio before `position` had come: of an old one, the oldest that is kept."""
        index = bisect.bisect_left(self._positions, position - 1e-6)
        return self._moments[index] if index < len(self._moments) else self.now()

    def moment(self, position: float) -> float:
        """Return the time of a position in the audio: its arrival, or itself in a recording that came faster."""
        return max(self.arrival(position), position)

    def queued(self) -> float:
        """Return the seconds of audio that a listener who plays it as it comes has left to play."""
        return max(0.0, self.played_out - self.now())

    def place(self, seconds: float, not_before: float = 0.0) -> float:
        """Queue `seconds` of translated audio; return the time at which it begins."""
        start = max(self.played_out, not_before)
        self.played_out = start + seconds
        return start

    def drop(self) -> None:
        """Forget the audio that is not played yet."""
        self.played_out = min(self.played_out, self.now())
