"""ElevenLabs' REST surface: speech, with and without times of its characters, and voices (elevenlabs.io, "API").

A request is one of `/v1/audio/speech` under other names. `schemas` lists the fields that are accepted and not used;
`alignment` times the characters. Errors have ElevenLabs' form, `{"detail": {"status", "message"}}`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Send

from app.errors import NotFoundError, ServiceError, UnknownVoiceError
from app.server.audio_response import Reply, ReplyForm, encode_chunk, encode_whole, pieces_of
from app.server.elevenlabs.alignment import Aligner, Alignment
from app.server.elevenlabs.schemas import (
    DEFAULT_OUTPUT,
    CharacterAlignment,
    ElevenVoice,
    ElevenVoicePage,
    ElevenVoices,
    OutputName,
    TextToSpeechBody,
    TimedAudio,
    parse_output,
    speed_of,
)
from app.server.error_responses import error_response
from app.server.native import voices
from app.server.openai.speech import SpeechResponse
from app.server.schemas import SpeechBody, VoiceEntry
from app.server.state import services
from app.speech.sentence import SpokenChunk
from app.speech.stream import SpeechStream
from app.speech.verifier import Mode
from app.voices.aliases import describe

router = APIRouter()

PATH = "/v1/text-to-speech/{voice_id}"
OutputFormat = Annotated[
    OutputName,
    Query(description="mp3_44100_128, pcm_24000, opus_48000_64, wav_16000, ulaw_8000, alaw_8000 and the like"),
]


Verify = Annotated[Mode, Query(description="have a recognizer hear the speech; `retry`: speak wrong words again")]


class VoiceNotFoundError(UnknownVoiceError):
    """No voice has the name in the path."""

    status = 404
    code = "voice_not_found"
    param = "voice_id"


@router.post(PATH, response_class=Response, responses={200: {"content": {"audio/mpeg": {}}}})
@router.post(PATH + "/stream", response_class=Response, responses={200: {"content": {"audio/mpeg": {}}}})
async def speak(
    request: Request,
    voice_id: str,
    body: TextToSpeechBody,
    output_format: OutputFormat = DEFAULT_OUTPUT,
    verify: Verify = "off",
) -> Response:
    """Speak `text`. Both paths send audio as soon as there is some, or as all is heard."""
    return _SpeechResponse(request, voice_id, body, output_format, verify=verify)


@router.post(PATH + "/with-timestamps", response_model=TimedAudio)
async def speak_timed(
    request: Request, voice_id: str, body: TextToSpeechBody, output_format: OutputFormat = DEFAULT_OUTPUT
) -> Response:
    """Speak `text`, with the times of its characters."""
    return _SpeechResponse(request, voice_id, body, output_format, in_lines=False)


@router.post(PATH + "/stream/with-timestamps", response_model=TimedAudio)
async def stream_timed(
    request: Request, voice_id: str, body: TextToSpeechBody, output_format: OutputFormat = DEFAULT_OUTPUT
) -> Response:
    """Speak `text` with the times of its characters, one JSON object per line. Times count from the start."""
    return _SpeechResponse(request, voice_id, body, output_format, in_lines=True)


@router.get("/v1/voices")
async def voice_list(request: Request) -> ElevenVoices:
    """List the voices of the default model, and the cloned voices where it speaks in them."""
    return ElevenVoices(voices=await _voices(request))


@router.get("/v2/voices")
async def voice_page(request: Request) -> ElevenVoicePage:
    """List the same voices, as the SDK's `voices.search` reads them."""
    result = await _voices(request)
    return ElevenVoicePage(voices=result, total_count=len(result))


@router.get("/v1/voices/{voice_id}")
async def voice(request: Request, voice_id: str) -> ElevenVoice:
    """Return one voice."""
    try:
        return _entry(await voices.voice(request, voice_id))
    except NotFoundError as error:
        raise VoiceNotFoundError(error.message) from None


async def _voices(request: Request) -> list[ElevenVoice]:
    return [_entry(known) for known in (await voices.listing(request)).voices]


def _entry(known: VoiceEntry) -> ElevenVoice:
    labels = {"language": known.language, "gender": known.gender}
    return ElevenVoice(
        voice_id=known.id,
        name=known.name,
        description=describe(known.gender, known.language) or None,
        category="cloned" if known.kind == "cloned" else "premade",
        labels={key: value for key, value in labels.items() if value is not None},
        high_quality_base_model_ids=[] if known.model is None else [known.model],
        created_at_unix=known.created_at,
    )


class _SpeechResponse(SpeechResponse):
    """Speech with ElevenLabs' errors and bit rate. `in_lines`: as for TimedReply; None: audio alone is sent."""

    text_field = "text"
    voice_marks = False

    def __init__(
        self,
        request: Request,
        voice: str,
        body: TextToSpeechBody,
        output_format: str,
        *,
        verify: Mode = "off",
        in_lines: bool | None = None,
    ) -> None:
        self._output = parse_output(output_format)
        speed, options = speed_of(body.voice_settings), body.options(self._output)
        speech = SpeechBody(input=body.text, voice=voice, speed=speed, verify=verify, **options)
        super().__init__(services(request), speech, "elevenlabs")
        self._path = request.url.path
        self._in_lines = in_lines

    def refusal(self, error: ServiceError) -> Response:
        return refusal(error, self._path)

    def make_reply(self, stream: SpeechStream, send: Send, form: ReplyForm) -> Reply:
        form = replace(form, bit_rate=self._output.bit_rate)
        if self._in_lines is None:
            return Reply(stream, send, form)
        return TimedReply(stream, send, form, self._body.input, in_lines=self._in_lines)


class TimedReply(Reply):
    """JSON with audio and alignment: one object, or one per line."""

    media_type = "application/json"

    def __init__(self, stream: SpeechStream, send: Send, form: ReplyForm, text: str, *, in_lines: bool) -> None:
        super().__init__(stream, send, form)
        self._aligner = Aligner(text, timed=stream.speech.synthesizer.reads == "phonemes")
        self._in_lines = in_lines

    async def whole(self, first: SpokenChunk, rest: AsyncIterator[SpokenChunk] | None = None) -> None:
        encoder = self._encoder(whole=True)
        if rest is None:
            data, chunks = [await encode_chunk(encoder, self._stream, first, last=True)], [first]
        else:
            data, chunks = await encode_whole(encoder, self._stream, first, rest)
        parts = [*map(self._aligner.push, _sentences(chunks)), self._aligner.finish()]
        for chunk in chunks:
            self._stream.delivered(chunk)
        # The audio goes into its place in pieces: copies of it all would take long.
        begin, end = self._json(b"", Alignment.joined(parts)).split(b'""', 1)
        await self._start(len(begin) + len(end) + 2 + 4 * math.ceil(sum(map(len, data)) / 3))
        await self._body(begin + b'"', more=True)
        left = b""
        for piece in pieces_of(data):
            left += piece
            even = len(left) - len(left) % 3
            await self._body(base64.b64encode(left[:even]), more=True)
            left = left[even:]
        await self._body(base64.b64encode(left) + b'"' + end, more=False)

    async def streamed(self, first: SpokenChunk, rest: AsyncIterator[SpokenChunk]) -> None:
        if self._in_lines:
            await super().streamed(first, rest)
        else:
            await self.whole(first, rest)

    def _piece(self, data: bytes, chunk: SpokenChunk | None) -> bytes:
        alignment = self._aligner.finish() if chunk is None else self._aligner.push(chunk)
        return self._json(data, alignment) if data or alignment.text else b""

    def _json(self, data: bytes, alignment: Alignment) -> bytes:
        times = None
        if alignment.text:
            times = CharacterAlignment(
                characters=list(alignment.text),
                character_start_times_seconds=[round(second, 4) for second in alignment.starts],
                character_end_times_seconds=[round(second, 4) for second in alignment.ends],
            )
        line = self.timed(base64.b64encode(data).decode("ascii"), times).model_dump_json()
        return line.encode() + (b"\n" if self._in_lines else b"")

    def timed(self, audio: str, times: CharacterAlignment | None) -> TimedAudio:
        """Return one object of the answer: `audio` in base64, and the next characters of the text."""
        return TimedAudio(audio_base64=audio, alignment=times, normalized_alignment=times)


def _sentences(chunks: list[SpokenChunk]) -> list[SpokenChunk]:
    """Join the pieces of each sentence. Only text and times of the result are valid."""
    result: list[SpokenChunk] = []
    under_way = False
    for chunk in chunks:
        if under_way:
            begun = result[-1]
            duration, words = begun.duration + chunk.duration, begun.words + chunk.words
            result[-1] = replace(begun, duration=duration, words=words, last=chunk.last)
        else:
            result.append(chunk)
        under_way = not chunk.last
    return result


def as_eleven(error: ServiceError) -> ServiceError:
    """Return `error` under the name and status that ElevenLabs' clients know."""
    known = isinstance(error, UnknownVoiceError) and not isinstance(error, VoiceNotFoundError)
    return VoiceNotFoundError(error.message) if known else error


def refusal(error: ServiceError, path: str) -> JSONResponse:
    """Return the answer to a request that fails."""
    return error_response(as_eleven(error), path=path)
