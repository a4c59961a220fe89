"""OpenAI's surface for speech recognition: transcriptions and translations (platform.openai.com, "Audio").

An answer is a JSON document, text or subtitles; or server-sent events, segment by segment. Bodies are spooled to disk
while they come, and few recordings are in memory at once.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.datastructures import FormData, Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.audio.subtitles import MEDIA_TYPES
from app.errors import ServiceError
from app.observability import metrics
from app.recognition.stream import RecognitionStream
from app.recognition.transcript import (
    DeltaEvent,
    Deltas,
    TranscriptionReply,
    TranscriptOptions,
    VerboseReply,
    logprob_entries,
)
from app.server.error_responses import sse_error
from app.server.exchange import StreamExchange
from app.server.forms import read_form
from app.server.routes.transcription_form import (
    MAX_FIELD_BYTES,
    MAX_FIELDS,
    TranscriptionForm,
    TranslationForm,
    read_fields,
)
from app.server.state import Services, services
from app.voices.store import storage_error
from models.contract import RecognitionTask
from models.timeline import Timeline

log = logging.getLogger(__name__)

router = APIRouter()

PATH = "/v1/audio/transcriptions"
TRANSLATIONS_PATH = "/v1/audio/translations"
PATHS = (PATH, TRANSLATIONS_PATH)
_OTHER_ANSWERS: dict[str, Any] = {kind: {} for kind in ("text/plain", *MEDIA_TYPES.values())}


def _body(form: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI."""
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form.model_json_schema()}}}}


@router.post(
    PATH,
    response_model=TranscriptionReply | VerboseReply,
    responses={200: {"content": _OTHER_ANSWERS | {"text/event-stream": {}}}},
    openapi_extra=_body(TranscriptionForm),
)
async def transcribe(request: Request) -> Response:
    """Write down what is spoken in a recording."""
    return TranscriptionExchange(services(request), "transcribe")


@router.post(
    TRANSLATIONS_PATH,
    response_model=TranscriptionReply | VerboseReply,
    responses={200: {"content": _OTHER_ANSWERS}},
    openapi_extra=_body(TranslationForm),
)
async def translate(request: Request) -> Response:
    """Write down in English what is spoken in a recording."""
    return TranscriptionExchange(services(request), "translate")


class TranscriptionExchange(StreamExchange[RecognitionStream]):
    """Response to a request for a transcription. It reads the body, too, and holds it while it is needed.

    `fields`: those of the form, once they are checked.
    """

    fields: TranslationForm

    def __init__(self, app: Services, task: RecognitionTask) -> None:
        super().__init__(app)
        self._task: RecognitionTask = task
        self._received = FormData()
        self._form = TranscriptOptions()
        self._labels = metrics.Labels(model="none", surface="openai", streaming=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the form, and answer. The request takes a slot only then: its sender may be slow."""
        request = Request(scope, receive)
        reading = read_form(request, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        async with AsyncExitStack() as held:
            held.enter_context(self.app.recognition.spool.place(self._size(request)))
            try:
                self._received = await held.enter_async_context(reading)
            except ClientDisconnect:
                await Response(status_code=400)(scope, receive, send)  # nobody reads it
                return
            except OSError as error:
                log.error("an upload cannot be stored: %s", error)
                raise storage_error("The upload cannot be stored", error) from error
            # A slow sender's time is its own.
            self.timeline = Timeline()
            await super().__call__(scope, receive, send)

    def _size(self, request: Request) -> int:
        """Return the bytes that the body may have."""
        most = self.app.settings.max_recording_bytes
        declared = request.headers.get("content-length", "")
        return min(int(declared), most) if declared.isdecimal() else most

    def check(self, headers: Headers) -> None:
        """Check the fields. Raises InvalidRequestError."""
        self.fields = read_fields(self._received, self._task)
        self._labels = replace(self._labels, streaming=self.fields.streamed)
        self._form = self.fields.form()

    async def prepare(self) -> RecognitionStream:
        """Return a stream that recognizes the recording. Raises what `RecognitionService.prepare` raises."""
        recognition, options = self.app.recognition, self.fields.options()
        prepared = await recognition.prepare(options, self.fields.file.read, self.timeline)
        labels = replace(self._labels, model=prepared.model)
        return RecognitionStream(recognition, prepared, self.timeline, labels)

    async def answer(self, stream: RecognitionStream) -> None:
        """Send everything at once, or each segment as it comes."""
        if self._labels.streaming:
            await self._send_events(stream)
            return
        body, media_type = (await stream.transcript()).render(self._form)
        headers = {"server-timing": self.timeline.server_timing(), "cache-control": "no-store"}
        await self.respond_in_time(Response(body, headers=headers, media_type=media_type))

    async def _send_events(self, stream: RecognitionStream) -> None:
        """Send deltas and the whole text. Raises the error that stops it, after telling a client that can be told."""
        deltas = Deltas()
        try:
            async for segment in stream:
                logprobs = logprob_entries(segment.tokens) if self._form.logprobs else None
                event = DeltaEvent(delta=deltas.push(segment.text), logprobs=logprobs)
                await self.send_event(event.model_dump_json(exclude_none=True))
            transcript = await stream.transcript()
        except ServiceError as error:
            if self.started:
                await self.send_part(sse_error(error))
            raise
        await self.send_event(transcript.done(logprobs=self._form.logprobs).model_dump_json(exclude_none=True))
        await self.send_event("[DONE]")
        await self.send_part(b"", more=False)

    def note_rejected(self) -> None:
        """Count a request that is refused before anything is computed."""
        metrics.record_recognition(self.timeline, self._labels, "rejected", 0.0)
