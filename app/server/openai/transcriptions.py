"""OpenAI's surface for speech recognition: transcriptions and translations (platform.openai.com, "Audio").

An answer is a JSON document, text or subtitles; or server-sent events, segment by segment. Bodies are spooled to disk
while they come, and few recordings are in memory at once.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.datastructures import FormData, Headers
from starlette.responses import Response

from app.audio.subtitles import MEDIA_TYPES
from app.recognition.service import RecognitionOptions
from app.recognition.stream import RecognitionStream
from app.recognition.transcript import (
    DeltaEvent,
    Deltas,
    TranscriptionReply,
    TranscriptOptions,
    VerboseReply,
    logprob_entries,
)
from app.server.exchange import is_json
from app.server.forms import read_form
from app.server.openai.transcription_form import (
    MAX_FIELD_BYTES,
    MAX_FIELDS,
    MAX_JSON_BYTES,
    TranscriptionForm,
    TranslationForm,
    read_fields,
    read_json_fields,
)
from app.server.recording_exchange import RecordingExchange
from app.server.state import Services, services
from app.threads import REQUESTS
from models.contract import RecognitionTask

router = APIRouter()

PATH = "/v1/audio/transcriptions"
TRANSLATIONS_PATH = "/v1/audio/translations"
PATHS = (PATH, TRANSLATIONS_PATH)
_OTHER_ANSWERS: dict[str, Any] = {kind: {} for kind in ("text/plain", *MEDIA_TYPES.values())}


_JSON_BODY: dict[str, Any] = {
    "description": "the same fields, and the recording as base64 in place of `file`",
    "type": "object",
    "required": ["input_audio"],
    "properties": {
        "input_audio": {
            "type": "object",
            "required": ["data"],
            "properties": {"data": {"type": "string", "format": "byte"}, "format": {"type": "string"}},
        }
    },
}


def _body(form: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI."""
    content = {"multipart/form-data": {"schema": form.model_json_schema()}, "application/json": {"schema": _JSON_BODY}}
    return {"requestBody": {"required": True, "content": content}}


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


class TranscriptionExchange(RecordingExchange):
    """Response to a request for a transcription. `fields`: those of the form, once they are checked."""

    fields: TranslationForm

    def __init__(self, app: Services, task: RecognitionTask) -> None:
        super().__init__(app, "openai")
        self._task: RecognitionTask = task
        self._received: FormData | TranslationForm = FormData()
        self._form = TranscriptOptions()

    async def read(self, request: Request, held: AsyncExitStack) -> None:
        """Read the form, or the JSON body that Open WebUI sends in its place."""
        if is_json(request.headers):
            most = min(MAX_JSON_BYTES, self.app.settings.max_recording_bytes)
            upload = await self.read_bytes(request, held, most)
            # On one thread: it may be large, and several would leave the event loop little of the interpreter.
            async with self.app.bodies.place():
                self._received = await REQUESTS.run(read_json_fields, await upload.read(), self._task)
        else:
            form = read_form(request, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
            self._received = await held.enter_async_context(form)

    def check(self, headers: Headers) -> None:
        """Check the fields. Raises InvalidRequestError."""
        received = self._received
        self.fields = read_fields(received, self._task) if isinstance(received, FormData) else received
        self.ignored = self.fields.unknown_fields()
        self.streams_events = self.fields.streamed
        self.labels = replace(self.labels, streaming=self.streams_events)
        self._form = self.fields.form()

    def options(self) -> RecognitionOptions:
        """Return the options of the recognition."""
        return self.fields.options()

    async def recording(self) -> bytes:
        """Return the recording."""
        file = self.fields.file
        data: bytes = file if isinstance(file, bytes) else await file.read()
        return data

    async def answer(self, stream: RecognitionStream) -> None:
        """Send everything at once, or each segment as it comes."""
        if not self.streams_events:
            await self.respond_whole(*(await stream.transcript()).render(self._form))
            return
        deltas = Deltas()
        async with aclosing(self.with_comments(stream)) as segments:
            async for segment in segments:
                logprobs = logprob_entries(segment.tokens) if self._form.logprobs else None
                event = DeltaEvent(delta=deltas.push(segment.text), logprobs=logprobs)
                await self.send_event(event.model_dump_json(exclude_none=True))
        transcript = await stream.transcript()
        await self.send_event(transcript.done(logprobs=self._form.logprobs).model_dump_json(exclude_none=True))
        await self.send_event("[DONE]")
        await self.send_part(b"", more=False)
