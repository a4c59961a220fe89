"""Deepgram's `WS /v1/speak`.

Sentences are spoken as soon as they are complete. `Flush` speaks the rest; `Flushed` answers it after its last audio,
also where there was nothing to speak. `Clear` drops the audio that was not sent. An error before the handshake is its
answer, as JSON. Later errors are an `Error` message before the socket closes, with `err_code`, `err_msg` and
`request_id`. `Warning` tells of text that was not spoken.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from app.audio.encoders import check_format, choose_rate
from app.config import Settings
from app.errors import EmptyInputError, ProtocolError
from app.observability import metrics
from app.server.deepgram import SPEAK_PATH
from app.server.deepgram.listen.transcript import model_uuid
from app.server.deepgram.speak.schemas import parse_start
from app.server.schemas import UnicodeText
from app.server.state import services
from app.server.streaming import events
from app.server.streaming.adapter import Adapter
from app.server.streaming.effects import Effect, Finish, Send
from app.server.streaming.session import StreamSession
from app.server.streaming.session_socket import SessionSocket
from app.speech.options import SpeechOptions

router = APIRouter()


class SpeakText(BaseModel):
    """Some text, cut anywhere."""

    type: Literal["Speak"]
    text: UnicodeText


class SpeakCommand(BaseModel):
    """Order about the text that came before. `KeepAlive` only says that the client is there."""

    type: Literal["Flush", "Clear", "Close", "KeepAlive"]


_Incoming = Annotated[SpeakText | SpeakCommand, Field(discriminator="type")]
_INCOMING: TypeAdapter[SpeakText | SpeakCommand] = TypeAdapter(_Incoming)


@router.websocket(SPEAK_PATH)
async def speak_live(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    start = parse_start(socket.query_params, app.catalog)
    # The handshake tells a client that it cannot be served. The session finds the prepared voice again.
    speech = await app.speech.prepare(
        SpeechOptions(model=start.model, voice=start.voice, lang=start.lang, speed=start.speed)
    )
    app.admission.check(speech.model)
    choose_rate(check_format(start.format), speech.synthesizer.sample_rate, start.sample_rate)
    await socket.accept()
    await SessionSocket(socket, app, DeepgramAdapter(start, app.settings)).serve()


class DeepgramAdapter(Adapter):
    """Deepgram's messages."""

    surface: ClassVar[metrics.SurfaceName] = "deepgram"

    def __init__(self, start: events.Start, settings: Settings) -> None:
        self.start = start
        self._max_frame_bytes = settings.max_frame_bytes
        self._max_flushes = settings.queue_size
        self._sequence = 0
        # Flushes that wait for `Flushed`, in order: whether each has audio. Bounded by the session and `_flush`.
        self._flushes: deque[bool] = deque()

    def receive(self, session: StreamSession, frame: str | bytes, now: float) -> list[Effect]:
        """Hand the order in a frame to `session`."""
        if isinstance(frame, bytes) or len(frame) > self._max_frame_bytes:
            # The session refuses it, and says why.
            return session.receive(frame, now)
        try:
            message = _INCOMING.validate_json(frame)
        except ValidationError as error:
            return session.fail(ProtocolError(events.explain(error, _Incoming)))
        if isinstance(message, SpeakText):
            return session.accept(events.Text(type="text", text=message.text), now)
        match message.type:
            case "Flush":
                return self._flush(session, now)
            case "Clear":
                self._flushes.clear()
                return session.accept(events.Cancel(type="cancel"), now)
            case "Close":
                return self._end(session, now)
        return []

    def _flush(self, session: StreamSession, now: float) -> list[Effect]:
        effects = session.accept(events.Flush(type="flush"), now)
        if any(isinstance(effect, Finish) for effect in effects):
            self._flushes.append(True)
        elif self._flushes and _is_empty(effects):
            if len(self._flushes) < self._max_flushes:
                self._flushes.append(False)
            # Its answer comes after the audio of the flushes before it.
            return []
        return effects

    def _end(self, session: StreamSession, now: float) -> list[Effect]:
        effects = session.accept(events.End(type="end"), now)
        if any(isinstance(effect, Finish) for effect in effects):
            self._flushes.append(True)
        # Deepgram closes a socket without an error where no text came.
        return [effect for effect in effects if not _is_empty([effect])]

    def event_frames(self, event: events.Outgoing) -> Iterable[str | bytes]:
        """Return the messages that say `event`."""
        return map(json.dumps, self._messages(event))

    def _messages(self, event: events.Outgoing) -> Iterator[dict[str, Any]]:
        match event:
            case events.Ready():
                yield {
                    "type": "Metadata",
                    "request_id": event.request_id or "",
                    "model_name": event.model,
                    "model_version": "1",
                    "model_uuid": model_uuid(event.model),
                }
            case events.Done(cancelled=True):
                yield self._answer("Cleared")
            case events.Done():
                yield from self._flushed(event.verification)
            case events.Warning(message=message):
                yield _warning("SSML_IGNORED", message)
            case events.Error(fatal=True, error=error):
                code = (error.code or "").upper()
                # Clients read the one pair of names or the other.
                yield {
                    "type": "Error",
                    "err_code": code,
                    "err_msg": error.message,
                    "request_id": error.request_id,
                    "code": code,
                    "description": error.message,
                }
            case events.Error(error=error):
                if error.code != EmptyInputError.code:
                    yield _warning((error.code or "").upper(), error.message)
                yield from self._flushed()

    def _flushed(self, verification: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        if self._flushes:
            self._flushes.popleft()
        answer = self._answer("Flushed")
        yield answer if verification is None else answer | {"verification": verification}
        while self._flushes and not self._flushes[0]:
            self._flushes.popleft()
            yield self._answer("Flushed")

    def _answer(self, kind: str) -> dict[str, Any]:
        sequence, self._sequence = self._sequence, self._sequence + 1
        return {"type": kind, "sequence_id": sequence}


def _is_empty(effects: list[Effect]) -> bool:
    """Whether a flush or the end is refused because no text came."""
    return any(
        isinstance(effect, Send)
        and isinstance(effect.message, events.Error)
        and effect.message.error.code == EmptyInputError.code
        for effect in effects
    )


def _warning(code: str, message: str) -> dict[str, Any]:
    # Clients read the one pair of names or the other.
    return {"type": "Warning", "code": code, "description": message, "warn_code": code, "warn_msg": message}
