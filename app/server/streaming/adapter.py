"""Adapter: how one protocol writes what a StreamSession reads and says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from app.audio.pcm import frames
from app.observability import metrics
from app.server.streaming import events
from app.server.streaming.effects import Effect
from app.server.streaming.session import StreamSession

# Largest binary frame that is sent: many clients refuse messages above one mebibyte.
FRAME = 65_536


class Adapter(ABC):
    """Translation between the frames of a protocol and the messages of a StreamSession. It does no I/O.

    `start` opens the session of a protocol whose frames do not; None: a frame does.
    """

    surface: ClassVar[metrics.SurfaceName]
    start: events.Start | None = None

    @abstractmethod
    def receive(self, session: StreamSession, frame: str | bytes, now: float) -> list[Effect]:
        """Hand a frame that came at `now` to `session`, and return its effects."""

    @abstractmethod
    def event_frames(self, event: events.Outgoing) -> Iterable[str | bytes]:
        """Return the frames that say `event`: none where the protocol has no word for it."""

    def audio_frames(self, data: bytes) -> Iterable[bytes]:
        """Return the frames of encoded audio."""
        return frames(data, FRAME)

    def closing_frames(self, code: int) -> Iterable[bytes]:
        """Return the frames that come before a close with `code`."""
        return ()
