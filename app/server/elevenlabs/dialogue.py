"""ElevenLabs' text to dialogue (elevenlabs.io, "Text to Dialogue"): several voices in turn, with times if wanted.

A request is one of `/v1/audio/dialogue` under other names. Tags such as `[whispers]` are not read aloud;
`x-ignored` names them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Send

from app.errors import ServiceError
from app.server.audio_response import Reply, ReplyForm
from app.server.elevenlabs.routes import OutputFormat, TimedReply, refusal
from app.server.elevenlabs.schemas import (
    DEFAULT_OUTPUT,
    CharacterAlignment,
    DialogueInput,
    TextToDialogueBody,
    TimedDialogue,
    VoiceSegment,
    parse_output,
)
from app.server.openai.dialogue import DialogueResponse, spoken_body
from app.server.state import services
from app.speech.document import Line, SpeechDocument
from app.speech.options import PreparedSpeech
from app.speech.stream import SpeechStream
from app.ssml.source import is_ssml

router = APIRouter()

PATH: Final = "/v1/text-to-dialogue"
_AUDIO: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"audio/mpeg": {}}}}
# Words in brackets; a pause or a pronunciation has other signs.
_TAG: Final = re.compile(r"\[[^\W\d_][\w ,.'’!-]{0,60}\](?!\(/)")


@router.post(PATH, response_class=Response, responses=_AUDIO)
@router.post(PATH + "/stream", response_class=Response, responses=_AUDIO)
async def speak(request: Request, body: TextToDialogueBody, output_format: OutputFormat = DEFAULT_OUTPUT) -> Response:
    """Speak `inputs` in turn, each in its voice. Both paths send audio as soon as there is some."""
    return _Response(request, body, output_format)


@router.post(PATH + "/with-timestamps", response_model=TimedDialogue)
async def speak_timed(
    request: Request, body: TextToDialogueBody, output_format: OutputFormat = DEFAULT_OUTPUT
) -> Response:
    """Speak `inputs`, with the times of their characters and voices."""
    return _Response(request, body, output_format, in_lines=False)


@router.post(PATH + "/stream/with-timestamps", response_model=TimedDialogue)
async def stream_timed(
    request: Request, body: TextToDialogueBody, output_format: OutputFormat = DEFAULT_OUTPUT
) -> Response:
    """Speak `inputs` with the times of their characters and voices, one JSON object per line."""
    return _Response(request, body, output_format, in_lines=True)


def _lines(inputs: Sequence[DialogueInput], lang: str | None, most: int) -> tuple[list[Line], tuple[str, ...]]:
    """Return the lines without their tags, of the same length, and the tags.

    Inputs of more than `most` characters keep their tags: they will be refused.
    """
    if sum(len(each.text) for each in inputs) > most:
        return [Line(each.text, each.voice_id, lang) for each in inputs], ()
    lines: list[Line] = []
    ignored: dict[str, None] = {}
    for each in inputs:
        line = Line(each.text, each.voice_id, lang)
        if is_ssml(each.text) is True or not _TAG.search(each.text):
            lines.append(line)
            continue
        ignored |= {f"tag {tag[1:-1][:50]}": None for tag in _TAG.findall(each.text)}
        lines.append(replace(line, text=_TAG.sub(lambda tag: " " * len(tag.group()), each.text)))
    return lines, tuple(ignored)[:20]


class _Response(DialogueResponse):
    """Dialogue with ElevenLabs' errors and bit rate. `in_lines`: as for TimedReply; None: audio alone is sent."""

    voice_field = "voice_id"
    most_voices = 10  # ElevenLabs' number

    def __init__(
        self, request: Request, body: TextToDialogueBody, output_format: str, *, in_lines: bool | None = None
    ) -> None:
        app = services(request)
        self._output = parse_output(output_format)
        lines, self._tags = _lines(body.inputs, body.language_code, app.settings.max_input_characters)
        super().__init__(app, spoken_body(lines, **body.options(self._output)), lines, "elevenlabs")
        self._inputs = body.inputs
        self._in_lines = in_lines
        self._path = request.url.path

    def refusal(self, error: ServiceError) -> Response:
        return refusal(error, self._path)

    def make_reply(self, stream: SpeechStream, send: Send, form: ReplyForm) -> Reply:
        form = replace(form, bit_rate=self._output.bit_rate)
        if self._in_lines is None:
            return Reply(stream, send, form)
        return _TimedReply(stream, send, form, self._inputs, in_lines=self._in_lines)

    async def read(self, speech: PreparedSpeech) -> SpeechDocument:
        result = await super().read(speech)
        return replace(result, ignored=(*result.ignored, *self._tags))


class _TimedReply(TimedReply):
    """JSON with audio, alignment and voices: one object, or one per line."""

    def __init__(
        self, stream: SpeechStream, send: Send, form: ReplyForm, inputs: Sequence[DialogueInput], *, in_lines: bool
    ) -> None:
        super().__init__(stream, send, form, "".join(each.text for each in inputs), in_lines=in_lines)
        self._inputs = inputs
        self._ends = list(accumulate(len(each.text) for each in inputs))
        self._told = 0  # characters

    def timed(self, audio: str, times: CharacterAlignment | None) -> TimedDialogue:
        segments = [] if times is None else list(self._segments(times))
        return TimedDialogue(audio_base64=audio, alignment=times, normalized_alignment=times, voice_segments=segments)

    def _segments(self, times: CharacterAlignment) -> Iterator[VoiceSegment]:
        begun, self._told = self._told, self._told + len(times.characters)
        position = begun
        while position < self._told:
            number = bisect_right(self._ends, position)
            end = min(self._ends[number], self._told)
            yield VoiceSegment(
                voice_id=self._inputs[number].voice_id,
                start_time_seconds=times.character_start_times_seconds[position - begun],
                end_time_seconds=times.character_end_times_seconds[end - 1 - begun],
                character_start_index=position - begun,
                character_end_index=end - begun,
                dialogue_input_index=number,
            )
            position = end
