"""Deepgram's `POST /v1/speak`.

The text is the body; everything else is in the query. Errors are `{"err_code", "err_msg", "request_id"}`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, get_args

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response
from starlette.types import Send

from app import request_context
from app.audio.encoders import INFO, Container
from app.errors import InvalidRequestError, UnsupportedFormatError
from app.server.audio_response import Reply, ReplyForm
from app.server.deepgram import SPEAK_PATH
from app.server.deepgram.speak.schemas import (
    ENCODINGS,
    describe,
    parse_bit_rate,
    parse_names,
    parse_rate,
    parse_speed,
    parse_verify,
)
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.openai.speech import SpeechResponse
from app.server.schemas import SpeechBody, UnicodeText
from app.server.state import Services, services
from app.speech.stream import SpeechStream
from app.speech.verifier import Mode

router = APIRouter()


class SpeakBody(BaseModel):
    """`POST /v1/speak`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Hello! How are you today?"}]})

    text: Annotated[UnicodeText, Field(description="the text to speak")]


_QUERY = {
    "parameters": [
        describe("model", "a voice of GET /v1/audio/voices, or one of Deepgram's names; default: the model's"),
        describe("encoding", "of the audio; default: `mp3`", enum=list(ENCODINGS)),
        describe("container", "`wav`, `ogg` or `none`; default: the first that the encoding has"),
        describe("sample_rate", "Hz; default: the model's, where the encoding has it"),
        describe("verify", "have a recognizer hear the speech; default: `off`", enum=list(get_args(Mode))),
    ]
}


@router.post(
    SPEAK_PATH,
    response_class=Response,
    responses={
        200: {"content": {INFO[name].media_type: {} for kinds in ENCODINGS.values() for name in kinds.values()}}
    },
    openapi_extra=_QUERY,
)
async def speak(request: Request, body: SpeakBody) -> Response:
    """Speak `text`. Everything else is in the query."""
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
    model, voice, lang = parse_names(query, app.catalog)
    try:
        speech = SpeechBody(
            input=body.text,
            model=model,
            voice=voice,
            lang=lang,
            response_format=containers[container],
            speed=parse_speed(query),
            sample_rate=parse_rate(query),
            verify=parse_verify(query),
        )
    except ValidationError as error:
        raise explain(first_error(error)) from None
    return _SpeechResponse(app, speech, "wav" if container == "wav" else "none", parse_bit_rate(query, encoding))


class _SpeechResponse(SpeechResponse):
    """Speech with the container, bit rate and headers of Deepgram."""

    text_field = "text"
    voice_marks = False

    def __init__(self, app: Services, body: SpeechBody, container: Container, bit_rate: int | None) -> None:
        super().__init__(app, body, "deepgram")
        self._container: Container = container
        self._bit_rate = bit_rate

    def make_reply(self, stream: SpeechStream, send: Send, form: ReplyForm) -> Reply:
        extra = {
            **form.extra,
            "dg-model-name": stream.speech.model,
            "dg-char-count": str(form.characters),
            "dg-request-id": request_context.request_id.get() or "",
        }
        return Reply(stream, send, replace(form, container=self._container, bit_rate=self._bit_rate, extra=extra))
