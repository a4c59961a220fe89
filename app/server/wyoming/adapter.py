"""One synthesis of a Wyoming client: a session of the streaming protocol on a part of the client's connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import ClassVar, Final

from starlette.types import Message

from app.audio.pcm import frames
from app.errors import EmptyInputError, NothingToSpeakError
from app.observability import metrics
from app.server.streaming import events
from app.server.streaming.adapter import FRAME, Adapter
from app.server.streaming.effects import Effect
from app.server.streaming.inbox import INBOX
from app.server.streaming.session import StreamSession
from app.server.wyoming.framing import encode_event

# Bytes of a sample.
WIDTH: Final = 2
# Frame that ends the text of a synthesis; other frames are text.
END: Final = b""
# Errors after which a stream has no audio, and is well: the reply of a language model may be an emoji alone.
_SILENT: Final = (EmptyInputError.code, NothingToSpeakError.code)


class SynthesisSocket:
    """Stand-in for the socket of one synthesis: text from `put`, events to the client's connection with `write`."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._frames: asyncio.Queue[str | bytes] = asyncio.Queue(INBOX)
        self.closed: int | None = None

    async def put(self, frame: str | bytes) -> None:
        """Add some text, or END. Waits while the synthesis reads none."""
        await self._frames.put(frame)

    async def receive(self) -> Message:
        """Return the next frame as a message of a WebSocket."""
        frame = await self._frames.get()
        return {"type": "websocket.receive", "text" if isinstance(frame, str) else "bytes": frame}

    async def send_text(self, data: str) -> None:
        """Refuse: events are bytes."""
        raise RuntimeError("events go out as bytes")

    async def send_bytes(self, data: bytes) -> None:
        """Write an event."""
        await self._write(data)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Note the end of the synthesis. The connection outlives it."""
        self.closed = code


class WyomingAdapter(Adapter):
    """Events of one synthesis. `streaming`: its text comes in parts, from a language model.

    `answered`: it ended without an error.
    """

    surface: ClassVar[metrics.SurfaceName] = "wyoming"

    def __init__(self, start: events.Start, *, streaming: bool) -> None:
        self.start = start
        self.answered = False
        self._streaming = streaming
        self._failed = False
        self._rate = 0
        # Samples that were sent; None: no audio began.
        self._samples: int | None = None

    def receive(self, session: StreamSession, frame: str | bytes, now: float) -> list[Effect]:
        """Hand text, or the end, to `session`."""
        if isinstance(frame, str):
            return session.accept(events.Text(type="text", text=frame), now)
        return session.accept(events.End(type="end"), now)

    def event_frames(self, event: events.Outgoing) -> Iterator[bytes]:
        """Return the events of Wyoming that say `event`."""
        match event:
            case events.Ready():
                self._rate = event.sample_rate
            case events.Done():
                yield from self._end()
            case events.Error(fatal=False, error=error) if self._streaming and error.code in _SILENT:
                yield from self._end()
            case events.Error(error=error):
                self._failed = True
                yield encode_event("error", {"text": error.message, "code": error.code, "request_id": error.request_id})

    def audio_frames(self, data: bytes) -> Iterator[bytes]:
        """Return the audio as events; the first time with their beginning."""
        for piece in frames(data, FRAME):
            if self._samples is None:
                self._samples = 0
                yield encode_event("audio-start", self._format())
            yield encode_event("audio-chunk", self._format(), piece)
            self._samples += len(piece) // WIDTH

    def closing_frames(self, code: int) -> Iterable[bytes]:
        """Return the end of a stream that had no text."""
        empty = code == 1000 and self._streaming and not self.answered and not self._failed
        return self._end() if empty else ()

    def _end(self) -> Iterator[bytes]:
        if self._samples is not None:
            yield encode_event("audio-stop", {"timestamp": self._milliseconds})
        if self._streaming:
            yield encode_event("synthesize-stopped")
        self.answered = not self._failed

    @property
    def _milliseconds(self) -> int:
        return (self._samples or 0) * 1000 // self._rate

    def _format(self) -> dict[str, int]:
        return {"rate": self._rate, "width": WIDTH, "channels": 1, "timestamp": self._milliseconds}
