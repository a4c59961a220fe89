"""Deepgram's `POST /v1/listen` (developers.deepgram.com, "Pre-recorded Audio").

The recording is the body; everything else is in the query. An address in place of a recording is refused: the server
sends no requests. Errors are `{"err_code", "err_msg", "request_id"}`.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AsyncExitStack
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import Response

from app import request_context
from app.audio.pcm import wav_header
from app.errors import InvalidRequestError
from app.recognition.service import RecognitionOptions
from app.recognition.stream import RecognitionStream
from app.recognition.transcript import Transcript
from app.server.deepgram import LISTEN_PATH
from app.server.deepgram.listen import transcript as form
from app.server.deepgram.listen.schemas import ENCODINGS, RawAudio, is_true, parse_audio, parse_listen
from app.server.deepgram.speak.schemas import describe, parse_number
from app.server.recording_exchange import RecordingExchange
from app.server.spooled_upload import SpooledUpload
from app.server.state import Services, services
from app.threads import REQUESTS

router = APIRouter()

# Seconds of silence that divide utterances, as Deepgram has them.
_PAUSE = 0.8


class DeepgramWord(BaseModel):
    """Word in lower case, and as it is written. Times in seconds."""

    word: str
    start: float
    end: float
    confidence: float
    punctuated_word: str


class DeepgramAlternative(BaseModel):
    """The text of the recording."""

    transcript: str
    confidence: float
    words: list[DeepgramWord]


class DeepgramChannel(BaseModel):
    """The one channel: channels are mixed. `detected_language` is there if it was asked for."""

    alternatives: list[DeepgramAlternative]
    detected_language: str | None = None


class UtteranceEntry(DeepgramAlternative):
    """Words between two pauses."""

    start: float
    end: float
    channel: int
    id: str


class DeepgramResults(BaseModel):
    """Texts of a recording. `utterances` are there if they were asked for."""

    channels: list[DeepgramChannel]
    utterances: list[UtteranceEntry] | None = None


class ListenReply(BaseModel):
    """`POST /v1/listen`."""

    metadata: dict[str, Any]
    results: DeepgramResults


_QUERY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    "parameters": [
        describe("model", "a model of GET /v1/models; Deepgram's names mean the default"),
        describe("language", "code, tag or English name of what is spoken; `multi` and default: detected"),
        describe("detect_language", "`true`, or languages that may be spoken, once for each"),
        describe("keyterm", "a word to expect; may come several times, as may `keywords`"),
        describe("encoding", "of a recording without a container", enum=[*ENCODINGS]),
        describe("sample_rate", "Hz of such a recording"),
        describe("channels", "channels of such a recording, which are mixed; default: 1"),
        describe("utterances", "`true`: words divided at pauses, too"),
        describe("utt_split", "seconds of such a pause; default: 0.8"),
    ],
}


@router.post(LISTEN_PATH, response_model=ListenReply, openapi_extra=_QUERY)
async def listen(request: Request) -> Response:
    """Write down what is spoken in a recording, the body. Everything else is in the query."""
    return ListenExchange(services(request), request)


class ListenExchange(RecordingExchange):
    """Response to a recording."""

    _upload: SpooledUpload
    _options: RecognitionOptions
    _audio: RawAudio | None
    _pause: float

    def __init__(self, app: Services, request: Request) -> None:
        super().__init__(app, "deepgram")
        self._query = request.query_params
        self._digest = hashlib.sha256()

    async def read(self, request: Request, held: AsyncExitStack) -> None:
        """Read the body."""
        self._upload = await self.read_bytes(request, held)

    def check(self, headers: Headers) -> None:
        """Check the query. Raises InvalidRequestError and UnknownModelError."""
        if headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            raise InvalidRequestError(
                "'url' is not supported: this server sends no requests. Send the recording itself as the body.",
                param="url",
            )
        self._options = RecognitionOptions(**parse_listen(self._query, self.app.catalog))
        self._audio = parse_audio(self._query, live=False)
        pause = parse_number(self._query, "utt_split", r"\d{1,4}(\.\d*)?", "of seconds")
        self._pause = _PAUSE if pause is None else pause
        if not self._upload.size:
            raise InvalidRequestError("The body is empty; send the recording as the body.", param="file")

    def options(self) -> RecognitionOptions:
        """Return the options of the recognition."""
        return self._options

    async def recording(self) -> bytes:
        """Return the recording, with a header where it has none."""
        data = await self._upload.read()
        # On a thread: the recording may be large.
        return await REQUESTS.run(self._read_whole, data)

    def _read_whole(self, data: bytes) -> bytes:
        self._digest.update(data)
        raw = self._audio
        # Some clients name the encoding within a WAV file.
        if raw is None or data.startswith(b"RIFF"):
            return data
        return wav_header(raw.rate, len(data) // raw.frame, raw.coding, raw.channels) + data

    async def answer(self, stream: RecognitionStream) -> None:
        """Send everything at once."""
        transcript = await stream.transcript()
        metadata = form.metadata(stream.labels.model, self._digest.hexdigest(), transcript.seconds)
        body = {"metadata": metadata, "results": self._results(transcript)}
        request_id = request_context.request_id.get() or ""
        await self.respond_whole(json.dumps(body), "application/json", **{"dg-request-id": request_id})

    def _results(self, transcript: Transcript) -> dict[str, Any]:
        words = form.all_words(transcript.segments)
        channel: dict[str, Any] = {"alternatives": [form.alternative(transcript.text, words, transcript.segments)]}
        if self._options.language is None and transcript.language is not None:
            channel["detected_language"] = transcript.language
        results: dict[str, Any] = {"channels": [channel]}
        if is_true(self._query, "utterances"):
            results["utterances"] = form.utterances(words, self._pause)
        return results
