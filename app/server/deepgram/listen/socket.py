"""Deepgram's `WS /v1/listen` (developers.deepgram.com, "Live Streaming Audio").

Binary messages are audio without a container. `Results` have the text of an utterance: once with `is_final`, and before
that as it is spoken, if `interim_results` asks for it. `speech_final` marks a pause that ended the utterance,
`from_finalize` the answer to `Finalize`. `CloseStream` is answered by the last results, then by `Metadata`. An error
before the handshake is its answer, as JSON. Later errors are an `Error` message before the socket closes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.datastructures import QueryParams

from app import request_context
from app.audio.samples import SampleReader
from app.audio.vad import SAMPLE_RATE, SPEECH
from app.engine.catalog import Catalog
from app.errors import BodyTooLargeError, ProtocolError, ServiceError
from app.observability import metrics
from app.recognition.events import (
    LiveEvent,
    LiveHypothesis,
    LiveOptions,
    LiveUtterance,
    SpeechStarted,
    SpeechStopped,
    UtteranceFailed,
)
from app.recognition.live import LiveRecognition
from app.server.deepgram import LISTEN_PATH
from app.server.deepgram.listen import transcript as form
from app.server.deepgram.listen.schemas import (
    LIVE_CODINGS,
    RawAudio,
    is_true,
    parse_audio,
    parse_listen,
    parse_milliseconds,
)
from app.server.error_responses import note_error
from app.server.schemas import UnicodeText
from app.server.state import Services, services
from app.server.streaming.events import explain
from app.server.streaming.live_socket import LiveSocket
from app.server.streaming.socket import Socket

router = APIRouter()

# Seconds of silence that end an utterance, at least: recognizers read phrases, not words.
MIN_ENDPOINTING_SECONDS: Final = 0.3
_KEYTERMS: Final = 500


class ListenCommand(BaseModel):
    """Order without anything more. `KeepAlive` only says that the client is there."""

    type: Literal["Finalize", "CloseStream", "KeepAlive"]


class Configure(BaseModel):
    """Change of the stream."""

    type: Literal["Configure"]
    keyterms: Annotated[list[UnicodeText] | None, Field(max_length=_KEYTERMS)] = None
    features: dict[str, bool] | None = None


_Incoming = Annotated[ListenCommand | Configure, Field(discriminator="type")]
_INCOMING: TypeAdapter[ListenCommand | Configure] = TypeAdapter(_Incoming)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Options of one stream. `utterance_end`: seconds of silence after the last word that are told; None: they are not.

    `endpoints`: the results that a pause ended have `speech_final`.
    """

    audio: RawAudio
    live: LiveOptions
    voice_events: bool
    endpoints: bool
    utterance_end: float | None


def parse_stream(query: QueryParams, catalog: Catalog) -> ListenOptions:
    """Return the options of a stream. Raises InvalidRequestError and UnsupportedFormatError."""
    given = parse_listen(query, catalog)
    audio = parse_audio(query, live=True)
    if audio is None:
        raise RuntimeError("a stream has no container")
    endpoints = query.get("endpointing", "").lower() not in ("false", "0")
    pause = parse_milliseconds(query, "endpointing") if endpoints and query.get("endpointing") != "true" else None
    silence = SPEECH.min_silence if pause is None else max(MIN_ENDPOINTING_SECONDS, pause)
    options = LiveOptions(
        **given,
        detection=replace(SPEECH, min_silence=silence),
        partials=is_true(query, "interim_results"),
    )
    return ListenOptions(
        audio=audio,
        live=options,
        voice_events=is_true(query, "vad_events"),
        endpoints=endpoints,
        utterance_end=parse_milliseconds(query, "utterance_end_ms"),
    )


@router.websocket(LISTEN_PATH)
async def listen_live(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    options = parse_stream(socket.query_params, app.catalog)
    # The handshake tells a client that it cannot be served.
    labels = metrics.Labels(app.recognition.model_name(options.live.model), "deepgram", streaming=True)
    live = await app.recognition.live(options.live, labels=labels)
    loop = ListenSocket(socket, app, options, live)
    try:
        request_id = request_context.request_id.get() or ""
        await socket.accept(headers=[(b"dg-request-id", request_id.encode("latin-1", "replace"))])
        await loop.serve()
    finally:
        live.close(loop.outcome)


class ListenSocket(LiveSocket):
    """Socket of one client that is listened to."""

    idle_message = "Neither audio nor KeepAlive was received for {seconds:g} seconds."

    def __init__(self, socket: Socket, app: Services, options: ListenOptions, live: LiveRecognition) -> None:
        audio = options.audio
        reader = SampleReader(LIVE_CODINGS[audio.coding], audio.rate, SAMPLE_RATE, audio.channels)
        super().__init__(socket, app, reader)
        self._options = options
        self._live = live
        self._digest = hashlib.sha256()
        self._bytes = 0
        # Of the utterances: the last that has its text, the one that `Finalize` ended, and whether one is spoken.
        self._final = -1
        self._finalized: int | None = None
        self._speaking = False
        self._last_word_end: float | None = None

    # The loop.

    async def begin(self) -> None:
        """Begin to tell the events."""
        self.listen_by(self._live)

    async def receive(self, frame: str | bytes) -> None:
        """Take audio, or carry out an order."""
        settings = self.app.settings
        most = settings.max_audio_frame_bytes if isinstance(frame, bytes) else settings.max_frame_bytes
        if len(frame) > most:
            raise BodyTooLargeError(f"A message of more than {most} bytes.")
        if self.finishing:
            return
        if isinstance(frame, bytes):
            await self._receive_audio(frame)
            return
        try:
            message = _INCOMING.validate_json(frame)
        except ValidationError as error:
            raise ProtocolError(explain(error, _Incoming)) from None
        if isinstance(message, Configure):
            await self._configure(message)
        elif message.type == "Finalize":
            await self._finalize()
        elif message.type == "CloseStream":
            await self.finish()

    async def end(self) -> None:
        """Write the metadata of all that came."""
        metadata = form.metadata(self._live.labels.model, self._digest.hexdigest(), self._seconds)
        await self._send("Metadata", metadata)

    # Orders.

    async def _receive_audio(self, data: bytes) -> None:
        if not data:
            # Deepgram's older clients end a stream so.
            await self.finish()
            return
        with self.throttle.measure():
            self._digest.update(data)
        self._bytes += len(data)
        await self.take(data)
        await self._check_utterance_end()

    async def _finalize(self) -> None:
        await self._live.commit()
        item = self._live.utterances - 1
        if item > self._final:
            self._finalized = item
        else:
            # All that came has its text: only the answer is missing.
            await self._send_results(self._seconds, self._seconds, form.alternative("", ()), finalized=True)

    async def _configure(self, message: Configure) -> None:
        request_id = request_context.request_id.get() or ""
        if message.keyterms is None:
            await self._send("ConfigureSuccess", {"request_id": request_id})
            return
        failure = {
            "code": "CONFIGURE_KEYTERMS_NOT_SUPPORTED",
            "description": "Words to expect are those of the query; they cannot be changed within a stream.",
        }
        await self._send("ConfigureFailure", {"request_id": request_id, **failure})

    # Events.

    @property
    def _seconds(self) -> float:
        """Seconds of audio that came."""
        return self._bytes // self._options.audio.frame / self._options.audio.rate

    async def send_event(self, event: LiveEvent) -> None:
        """Tell an event."""
        match event:
            case SpeechStarted():
                self._speaking = True
                if self._options.voice_events:
                    await self._send("SpeechStarted", {"channel": [0], "timestamp": round(event.start, 3)})
            case SpeechStopped():
                self._speaking = False
            case LiveHypothesis():
                text = (event.committed + event.pending).strip()
                if text:
                    found = form.alternative(text, event.words)
                    await self._send_results(event.start, event.end, found, final=False)
            case UtteranceFailed():
                raise event.error
            case LiveUtterance():
                await self._tell_utterance(event)

    async def _tell_utterance(self, event: LiveUtterance) -> None:
        self._final = event.item
        finalized = self._finalized == event.item
        words = form.all_words(event.segments)
        found = form.alternative(event.text.strip(), words, event.segments)
        if event.language is not None and self._options.live.language is None:
            found["languages"] = [event.language]
        await self._send_results(event.start, event.end, found, finalized=finalized)
        if event.warning is not None:
            await self._send("Warning", {"description": event.warning})
        if event.text.strip():
            self._last_word_end = words[-1].end if words else event.end
        await self._check_utterance_end()

    async def _check_utterance_end(self) -> None:
        """Tell of silence after the last word, once for each word."""
        end, pause = self._last_word_end, self._options.utterance_end
        if end is None or pause is None or self._speaking or self._live.utterances - 1 > self._final:
            return
        if self._seconds - end >= pause:
            self._last_word_end = None
            await self._send("UtteranceEnd", {"channel": [0, 1], "last_word_end": round(end, 3)})

    # Messages.

    async def _send_results(
        self, start: float, end: float, found: dict[str, Any], *, final: bool = True, finalized: bool = False
    ) -> None:
        """Send what was found from second `start` to `end`. `finalized`: the client ended that part by `Finalize`."""
        model = self._live.labels.model
        metadata = {
            "request_id": request_context.request_id.get() or "",
            "model_uuid": form.model_uuid(model),
            "model_info": form.model_info(model),
        }
        results = {
            "channel_index": [0, 1],
            "duration": round(end - start, 3),
            "start": round(start, 3),
            "is_final": final,
            "speech_final": final and (finalized or self._options.endpoints),
            "channel": {"alternatives": [found]},
            "metadata": metadata,
            "from_finalize": finalized,
        }
        await self._send("Results", results)

    async def send_error(self, error: ServiceError) -> None:
        """Tell an error."""
        note_error(error.code, error.status)
        code = error.code.upper()
        # Clients read the one set of names or the other.
        body = {
            "variant": code,
            "description": error.message,
            "message": error.message,
            "err_code": code,
            "err_msg": error.message,
            "request_id": request_context.request_id.get() or "",
        }
        await self._send("Error", body)

    async def _send(self, kind: str, body: dict[str, Any]) -> None:
        await self.send(json.dumps({"type": kind, **body}))
