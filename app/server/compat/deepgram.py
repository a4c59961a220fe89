"""Deepgram's surface: `WS /v1/speak` and `POST /v1/speak` (developers.deepgram.com, "Text to Speech").

`model` is one of Deepgram's own names, which stand for a voice of their gender and language, or one of ours as
`names.model_and_voice` reads it. Over the socket sentences are spoken as soon as they are complete; `Flush` speaks the
rest and is answered by `Flushed` after its last audio, whether or not there was anything to speak; `Clear` drops what
was not sent yet. Errors are `{"err_code", "err_msg", "request_id"}`: as the answer to a handshake that cannot be
served, as a body, and in the `Error` message before a socket is closed; `Warning` tells of text that was not spoken.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import deque
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Send

from app import request_context
from app.audio.encoders import INFO, Container, Format, check_bit_rate, choose_rate
from app.engine.catalog import Catalog
from app.errors import EmptyInputError, InvalidRequestError, ProtocolError, ServiceError, UnsupportedFormatError
from app.observability import metrics
from app.server.audio_response import Reply, Shape
from app.server.compat.model_voice import model_and_voice
from app.server.error_responses import SPEAK_PATH, error_response, header_text
from app.server.routes.speech import SpeechResponse
from app.server.routes.stream import Connection
from app.server.schemas import SpeechBody
from app.server.state import Services, services
from app.server.streaming import events
from app.server.streaming.session import Effect, Finish
from app.server.streaming.session import Send as SendMessage
from app.speech.options import SpeechOptions
from app.speech.stream import SpeechStream
from app.voices.aliases import find_aura

router = APIRouter()

# Over the socket there are only encodings without a container.
SOCKET_ENCODINGS: dict[str, Format] = {"linear16": "pcm", "mulaw": "mulaw", "alaw": "alaw"}
# Of each encoding: what it is in each container it may have, the usual one first.
ENCODINGS: dict[str, dict[str, Format]] = {
    "mp3": {"none": "mp3"},
    "linear16": {"wav": "wav", "none": "pcm"},
    "mulaw": {"wav": "mulaw", "none": "mulaw"},
    "alaw": {"wav": "alaw", "none": "alaw"},
    "opus": {"ogg": "opus"},
    "flac": {"none": "flac"},
    "aac": {"none": "aac"},
}
_WITH_BIT_RATE = ("mp3", "opus", "aac")
_USUAL_RATE = 24_000  # Hz: Deepgram's, and that of the models here


class SpeakBody(BaseModel):
    """`POST /v1/speak`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Hello! How are you today?"}]})

    text: Annotated[events.UnicodeText, Field(description="the text to speak")]


class Speak(BaseModel):
    """Some text, cut anywhere."""

    type: Literal["Speak"]
    text: events.UnicodeText


class Command(BaseModel):
    """What to do with the text so far; `KeepAlive` only says that the client is there."""

    type: Literal["Flush", "Clear", "Close", "KeepAlive"]


_INCOMING: TypeAdapter[Speak | Command] = TypeAdapter(Annotated[Speak | Command, Field(discriminator="type")])


def _query(name: str, description: str, **schema: Any) -> dict[str, Any]:
    """Describe a query parameter: they are read by name, for Deepgram's clients send more of them."""
    return {"name": name, "in": "query", "description": description, "schema": {"type": "string", **schema}}


_QUERY = {
    "parameters": [
        _query("model", "a voice of GET /v1/audio/voices, or one of Deepgram's names; default: the model's"),
        _query("encoding", "of the audio; default: `mp3`", enum=list(ENCODINGS)),
        _query("container", "`wav`, `ogg` or `none`; default: the first that the encoding has"),
        _query("sample_rate", "Hz; default: the model's, where the encoding has it"),
    ]
}


@router.post(
    SPEAK_PATH,
    response_class=Response,
    responses={
        200: {
            "content": {INFO[name].media_type: {} for containers in ENCODINGS.values() for name in containers.values()}
        }
    },
    openapi_extra=_QUERY,
)
async def speak(request: Request, body: SpeakBody) -> Response:
    """Speak `text`, as Deepgram's clients ask for it: everything else is in the query."""
    app = services(request)
    query = request.query_params
    if "callback" in query:
        raise InvalidRequestError("'callback' is not supported: this server calls nobody.", param="callback")
    encoding = query.get("encoding", "mp3").lower()
    containers = ENCODINGS.get(encoding)
    if containers is None:
        raise UnsupportedFormatError(
            f"Unknown encoding {encoding[:40]!r}; accepted are: {', '.join(ENCODINGS)}.", param="encoding"
        )
    container = query.get("container", next(iter(containers))).lower()
    if container not in containers:
        raise UnsupportedFormatError(
            f"{encoding} has no container {container[:40]!r}; accepted: {', '.join(containers)}.", param="container"
        )
    model, voice, lang = _names(query, app.catalog)
    try:
        asked = SpeechBody(
            input=body.text,
            model=model,
            voice=voice,
            lang=lang,
            response_format=containers[container],
            speed=_speed(query),
            sample_rate=_rate(query),
        )
    except ValidationError as error:
        raise _invalid(error) from None
    return _SpeechResponse(app, asked, "wav" if container == "wav" else "none", _bit_rate(query, encoding))


class _SpeechResponse(SpeechResponse):
    """The same request under other names."""

    text_field = "text"

    def __init__(self, app: Services, body: SpeechBody, container: Container, bit_rate: int | None) -> None:
        super().__init__(app, body, "deepgram")
        self._container: Container = container
        self._bit_rate = bit_rate

    def make_reply(self, stream: SpeechStream, send: Send, shape: Shape) -> Reply:
        extra = {
            "dg-model-name": stream.speech.model,
            "dg-char-count": str(shape.characters),
            "dg-request-id": request_context.request_id.get() or "",
        }
        return Reply(stream, send, replace(shape, container=self._container, bit_rate=self._bit_rate, extra=extra))


@router.websocket(SPEAK_PATH)
async def speak_live(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    try:
        start = _start(socket.query_params, app.catalog)
        # A client learns from the handshake that it cannot be served; what is found out here is remembered.
        speaker = await app.speech.prepare(
            SpeechOptions(model=start.model, voice=start.voice, lang=start.lang, speed=start.speed)
        )
        choose_rate(
            SOCKET_ENCODINGS[_encoding(socket.query_params)], speaker.synthesizer.sample_rate, start.sample_rate
        )
    except ServiceError as error:
        headers = {"dg-error": header_text(error.message)}
        await socket.send_denial_response(error_response(error, headers, path=SPEAK_PATH))
        return
    await socket.accept()
    await _Speaking(socket, app, start).serve()


class _Speaking(Connection):
    surface: ClassVar[metrics.Surface] = "deepgram"

    def __init__(self, socket: WebSocket, app: Services, start: events.Start) -> None:
        super().__init__(socket, app)
        self._start = start
        self._sequence = 0
        # Flushes that wait for `Flushed`, in order: whether each has audio. Bounded by the session, and below.
        self._flushes: deque[bool] = deque()

    async def _begin(self) -> None:
        await self._carry_out(self._session.accept(self._start))

    def _hear(self, frame: str | bytes, now: float) -> list[Effect]:
        if isinstance(frame, bytes) or len(frame) > self._app.settings.max_frame_bytes:
            return self._session.receive(frame, now)  # which says why not
        try:
            message = _INCOMING.validate_json(frame)
        except ValidationError as error:
            return self._session.fail(ProtocolError(_explain(error)))
        if isinstance(message, Speak):
            return self._session.accept(events.Text(type="text", text=message.text), now)
        match message.type:
            case "Flush":
                return self._flush(now)
            case "Clear":
                self._flushes.clear()
                return self._session.accept(events.Cancel(type="cancel"), now)
            case "Close":
                return self._end(now)
        return []

    def _flush(self, now: float) -> list[Effect]:
        effects = self._session.accept(events.Flush(type="flush"), now)
        if any(isinstance(effect, Finish) for effect in effects):
            self._flushes.append(True)
        elif self._flushes and _is_empty(effects):
            if len(self._flushes) < self._app.settings.queue_size:
                self._flushes.append(False)
            # Answered in its turn: after the audio of what was flushed before.
            return []
        return effects

    def _end(self, now: float) -> list[Effect]:
        effects = self._session.accept(events.End(type="end"), now)
        if any(isinstance(effect, Finish) for effect in effects):
            self._flushes.append(True)
        # Deepgram lets a socket close on which nothing was said.
        return [effect for effect in effects if not _is_empty([effect])]

    async def _tell(self, message: events.Outgoing) -> None:
        match message:
            case events.Ready():
                await self._send(_metadata(message))
            case events.Done(cancelled=True):
                await self._answer("Cleared")
            case events.Done():
                await self._flushed()
            case events.Error(fatal=True, error=error):
                told = {
                    "err_code": (error.code or "").upper(),
                    "err_msg": error.message,
                    "request_id": error.request_id,
                }
                await self._send({"type": "Error", **told, "code": told["err_code"], "description": error.message})
            case events.Error(error=error):
                if error.code != EmptyInputError.code:
                    code = (error.code or "").upper()
                    await self._send(
                        {
                            "type": "Warning",
                            # Clients read the one or the other.
                            "code": code,
                            "description": error.message,
                            "warn_code": code,
                            "warn_msg": error.message,
                        }
                    )
                await self._flushed()

    async def _flushed(self) -> None:
        if self._flushes:
            self._flushes.popleft()
        await self._answer("Flushed")
        while self._flushes and not self._flushes[0]:
            self._flushes.popleft()
            await self._answer("Flushed")

    async def _answer(self, kind: str) -> None:
        sequence, self._sequence = self._sequence, self._sequence + 1
        await self._send({"type": kind, "sequence_id": sequence})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._send_text(json.dumps(message))


def _is_empty(effects: list[Effect]) -> bool:
    """Whether a flush or the end is refused because nothing was said."""
    return any(
        isinstance(effect, SendMessage)
        and isinstance(effect.message, events.Error)
        and effect.message.error.code == EmptyInputError.code
        for effect in effects
    )


def _metadata(ready: events.Ready) -> dict[str, Any]:
    model = uuid.uuid5(uuid.NAMESPACE_OID, ready.model)
    return {
        "type": "Metadata",
        "request_id": ready.request_id or "",
        "model_name": ready.model,
        "model_version": "1",
        "model_uuid": str(model),
    }


def _names(query: QueryParams, catalog: Catalog) -> tuple[str | None, str | None, str | None]:
    """Model, voice and language of a request."""
    name = query.get("model", "")
    if not name:
        return None, None, None
    aura = find_aura(name)
    if aura is None:
        return (*model_and_voice(name, catalog), None)
    # A new voice of theirs, of which only the language is known, is the default one.
    voice = None if aura.gender is None else name
    return None, voice, None if aura.language == "en" else aura.language


def _encoding(query: QueryParams) -> str:
    name = query.get("encoding", "linear16").lower()
    if name not in SOCKET_ENCODINGS:
        raise UnsupportedFormatError(
            f"Unknown encoding {name[:40]!r}; accepted over a WebSocket are: {', '.join(SOCKET_ENCODINGS)}.",
            param="encoding",
        )
    return name


def _start(query: QueryParams, catalog: Catalog) -> events.Start:
    model, voice, lang = _names(query, catalog)
    try:
        return events.Start(
            type="start",
            model=model,
            voice=voice,
            lang=lang,
            format=SOCKET_ENCODINGS[_encoding(query)],
            sample_rate=_rate(query),
            speed=_speed(query),
        )
    except ValidationError as error:
        raise _invalid(error) from None


def _rate(query: QueryParams) -> int | None:
    text = query.get("sample_rate", "")
    if not text:
        return None
    # The SDK has it as a floating-point number.
    if not re.fullmatch(r"[1-9]\d{0,5}(\.0*)?", text, re.ASCII):
        raise InvalidRequestError(f"'sample_rate' is {text[:40]!r}; it must be a number of Hz.", param="sample_rate")
    return int(float(text))


def _bit_rate(query: QueryParams, encoding: str) -> int | None:
    """In bit/s, of an encoding that has one to choose; None: the encoding's usual one."""
    text = query.get("bit_rate", "")
    if not text:
        return None
    if encoding not in _WITH_BIT_RATE:
        raise UnsupportedFormatError(
            f"{encoding} has no bit rate to choose; these have: {', '.join(_WITH_BIT_RATE)}.", param="bit_rate"
        )
    # The SDK has this as a floating-point number, too.
    if not re.fullmatch(r"[1-9]\d{0,3}000(\.0*)?", text, re.ASCII):
        message = f"'bit_rate' is {text[:40]!r}; it must be a number of bit/s, in whole thousands."
        raise InvalidRequestError(message, param="bit_rate")
    (name,) = ENCODINGS[encoding].values()
    return check_bit_rate(name, _rate(query) or _USUAL_RATE, int(float(text)) // 1000)


def _speed(query: QueryParams) -> float:
    text = query.get("speed", "")
    try:
        return float(text) if text else 1.0
    except ValueError:
        raise InvalidRequestError(f"'speed' is {text[:40]!r}; it must be a number.", param="speed") from None


def _invalid(error: ValidationError) -> InvalidRequestError:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    return InvalidRequestError(f"Invalid '{name}': {first['msg']}.", param=name)


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return "The message is not valid JSON."
    if first["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        return "The message needs a 'type': one of Speak, Flush, Clear, Close, KeepAlive."
    if first["type"] in {"model_attributes_type", "dict_type"}:
        return "The message must be a JSON object."
    return f"'{'.'.join(str(part) for part in first['loc'][1:])}' of '{first['loc'][0]}': {first['msg']}."
