"""OpenAI's `WS /v1/realtime?intent=transcription`: audio in as it is spoken, text out.

A session is configured by `session.update`, or by `transcription_session.update` of the older protocol. An error of the
client is an `error` event, and the session stays open. One that ends the session is followed by a close.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.audio.samples import SampleReader
from app.audio.vad import SAMPLE_RATE
from app.errors import DrainingError, InvalidRequestError, ProtocolError, ServiceError
from app.observability import metrics
from app.recognition.events import LiveEvent
from app.recognition.live import LiveRecognition
from app.server.openai.realtime.config import TranscriptionConfig, from_old
from app.server.openai.realtime.conversation_config import ConversationConfig
from app.server.openai.realtime.dispatch import carry_out
from app.server.openai.realtime.events import new_id, read_audio, write_error, write_event
from app.server.openai.realtime.items import ItemEvents
from app.server.state import Services
from app.server.streaming.socket import Socket, SocketLoop
from models.timeline import Timeline

# Streams of one session that are not recognized to their end: each change of the configuration begins another.
MAX_STREAMS: Final = 4


SessionConfig = TranscriptionConfig | ConversationConfig


class EmptyBufferError(InvalidRequestError, code="input_audio_buffer_commit_empty"):
    """Raised for a commit of no audio."""


@dataclass(slots=True, eq=False)
class _Stream:
    """Audio under one configuration, and the writer of its events."""

    live: LiveRecognition
    reader: SampleReader
    events: ItemEvents
    samples: int = 0


class TranscriptionSocket(SocketLoop):
    """Socket of one transcription session."""

    kind = "transcription"

    def __init__(self, socket: Socket, app: Services, config: SessionConfig) -> None:
        super().__init__(socket, app)
        self._config: SessionConfig = config
        self._id = new_id("sess")
        self._old = False
        self._expires_at = round(time.time() + app.settings.session_seconds)
        self._stream: _Stream | None = None
        self._streams: asyncio.Queue[_Stream] = asyncio.Queue(MAX_STREAMS)
        self._open: list[_Stream] = []
        self._previous: str | None = None
        # Samples of the session before the stream that is open.
        self._before = 0
        self._created = self._ending = False
        self._handlers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "session.update": self._update,
            "transcription_session.update": self._update_old,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
        }

    # The loop.

    async def begin(self) -> None:
        """Check the configuration, and tell it. Raises ServiceError."""
        await self._check(self._config)
        self._created = True
        await self.send(write_event("session.created", session=self._session()))

    async def receive(self, frame: str | bytes) -> None:
        """Carry out an event. Raises ServiceError where it ends the session."""
        await carry_out(self, frame, self._handlers, self.kind)

    @property
    def busy(self) -> bool:
        """Whether anything is being recognized."""
        return any(stream.live.busy for stream in self._open)

    async def settle(self) -> None:
        """Close once everything was told after the end of the server began. Raises the error of the task."""
        await super().settle()
        if self._ending and self._task is None:
            raise DrainingError("The server is shutting down.")

    async def drain(self) -> None:
        """Recognize the audio that came, then close."""
        self._ending = True
        await self._end_stream()

    async def send_error(self, error: ServiceError) -> None:
        """Tell the client of `error`."""
        if not self._created:
            labels = metrics.Labels("none", "openai", True)
            metrics.record_recognition(Timeline(), labels, "rejected", 0.0)
        await self.send(write_error(error))

    async def stop(self) -> None:
        """Stop recognizing. When this returns, nothing more is sent."""
        await super().stop()
        for stream in self._open:
            stream.live.close("ok" if stream.live.idle else "cancelled")
        self._open.clear()
        self._stream = None

    # Configuration.

    def _session(self) -> dict[str, Any]:
        """Return the session in the shape of the protocol that the client speaks."""
        assert isinstance(self._config, TranscriptionConfig)  # noqa: S101  (a conversation overrides this)
        model = self._config.audio.input.transcription.model or self.app.recognition.default_model
        head = {"id": self._id, "object": "realtime.transcription_session", "expires_at": self._expires_at}
        return head | self._config.shown(model, old=self._old)

    async def _check(self, config: SessionConfig) -> None:
        """Wait for the model of a configuration, and check its options. Raises ServiceError."""
        await self.unless_gone(self.app.recognition.check_live(config.options))

    async def _update(self, event: dict[str, Any]) -> None:
        self._old = False
        await self._change(event, "session.updated", lambda fields: fields)

    async def _update_old(self, event: dict[str, Any]) -> None:
        self._old = True
        await self._change(event, "transcription_session.updated", from_old)

    async def _change(
        self, event: dict[str, Any], answer: str, read: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        fields = event.get("session")
        if not isinstance(fields, dict):
            raise ProtocolError("'session' must be a JSON object.", param="session")
        config = self._config.changed(read(fields))
        if config != self._config:
            await self._check(config)
            if config.options != self._config.options or config.coding != self._config.coding:
                await self._end_stream()
            self._config = config
        await self.send(write_event(answer, session=self._session()))

    # Audio.

    async def _append(self, event: dict[str, Any]) -> None:
        with self.throttle.measure():
            data = read_audio(event)
        if self._ending:
            return
        stream = await self._begin_stream()
        stream.live.require_speech(self.interruption_seconds())
        with self.throttle.measure():
            pcm = stream.reader.push(data)
        stream.samples += pcm.size
        # Waits while the model is behind, and so does the client.
        await self.unless_gone(stream.live.push(pcm))

    def interruption_seconds(self) -> float | None:
        """Return the seconds that a voice must last to be one; None: as usual."""
        return None

    async def _commit(self, event: dict[str, Any]) -> None:
        if self._stream is None or not await self.unless_gone(self._stream.live.commit()):
            raise EmptyBufferError("There is no audio to commit; append some before.")

    async def _clear(self, event: dict[str, Any]) -> None:
        if self._stream is not None:
            self._stream.live.clear()
        await self.send(write_event("input_audio_buffer.cleared"))

    async def _begin_stream(self) -> _Stream:
        """Return the stream that is open; the first audio opens it."""
        if self._stream is None:
            coding, rate = self._config.coding
            live = await self.unless_gone(self.app.recognition.live(self._config.options))
            events = self.make_events(self._before / SAMPLE_RATE)
            self._stream = _Stream(live, SampleReader(coding, rate, SAMPLE_RATE), events)
            self._open.append(self._stream)
            await self.unless_gone(self._streams.put(self._stream))
            self.speak(self._send_streams)
        return self._stream

    def make_events(self, since: float) -> ItemEvents:
        """Return the writer of the events of a stream that begins at second `since` of the session."""
        return ItemEvents(since, logprobs=self._config.logprobs, old=self._old)

    async def tell(self, events: ItemEvents, event: LiveEvent) -> None:
        """Send what the recognition tells."""
        for message in events.write(event):
            await self.send(message)

    async def _end_stream(self) -> None:
        """Have the audio that came recognized to its end. The next audio opens another stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._before += stream.samples
            await stream.live.finish()

    async def _send_streams(self) -> None:
        """Send the events of the streams, one stream after the other."""
        try:
            await self._send_events()
        except BaseException:
            # The audio that waits for its turn would wait for ever.
            for stream in self._open:
                stream.live.close("cancelled")
            raise

    async def _send_events(self) -> None:
        while not self._streams.empty():
            stream = self._streams.get_nowait()
            stream.events.previous = self._previous
            async for event in stream.live:
                await self.tell(stream.events, event)
            self._previous = stream.events.previous
            stream.live.close("ok")
            self._open.remove(stream)
