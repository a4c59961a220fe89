"""ElevenLabs' `POST /v1/speech-to-text` (elevenlabs.io, "Speech to Text"): a form with a recording.

Unknown fields are ignored, as ElevenLabs does. `tag_audio_events`, `num_speakers`, `seed`, `no_verbatim`,
`numbers_format` and the like have no counterpart: they are accepted and not used. What asks for something that is not
made here is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.responses import Response

from app import request_context
from app.audio.pcm import wav_header
from app.audio.subtitles import MEDIA_TYPES
from app.errors import InvalidRequestError, UnsupportedFormatError
from app.recognition.service import RecognitionOptions
from app.recognition.stream import RecognitionStream
from app.recognition.transcript import Transcript, TranscriptOptions
from app.server.elevenlabs import SPEECH_TO_TEXT_PATH
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.forms import describe_form, from_json, read_form
from app.server.recording_exchange import RecordingExchange
from app.server.schemas import UnicodeText
from app.server.state import Services, services
from models.contract import RecognizedSegment

router = APIRouter()

# Beginning of the names of ElevenLabs' models that listen. They stand for the default model.
MODEL_PREFIX: Final = "scribe_"
MAX_FIELDS: Final = 1_200
MAX_FIELD_BYTES: Final = 65_536
_MAX_KEYTERMS: Final = 1_000
_LISTS: Final = frozenset({"keyterms", "secondary_language_codes"})
_REFUSED: Final = {
    "source_url": "this server sends no requests: send the recording as 'file'",
    "cloud_storage_url": "this server sends no requests: send the recording as 'file'",
    "webhook": "this server sends no requests: the answer is the transcript",
    "diarize": "speakers are not told apart",
    "detect_speaker_roles": "speakers are not told apart",
    "use_multi_channel": "channels are mixed to one",
    "entity_detection": "entities are not detected",
    "entity_redaction": "nothing is left out of a text",
    "transcript_edit": "texts are not edited",
}
_OFF: Final = ("", "false", "null", "none", '"none"', "[]")
# Rate of recordings without a header, with `file_format`.
_RAW_RATE: Final = 16_000
_DIGITS: Final = 3


class Export(BaseModel):
    """Another form of the transcript. Its options are accepted and not used."""

    model_config = ConfigDict(extra="ignore")

    format: Literal["srt", "txt", "segmented_json", "docx", "html", "pdf"]


_EXPORT_SCHEMA = {"type": "string", "description": 'JSON: a list of {"format": "srt"} and {"format": "txt"}'}


class SpeechToTextForm(BaseModel):
    """`POST /v1/speech-to-text`, as multipart/form-data."""

    model_config = ConfigDict(extra="ignore")

    model_id: Annotated[UnicodeText, Field(description="a name of GET /v1/models; scribe_... means the default")]
    file: Annotated[Any, Field(description="the recording", json_schema_extra={"type": "string", "format": "binary"})]
    language_code: Annotated[UnicodeText | None, Field(description="what is spoken; default: detected")] = None
    secondary_language_codes: Annotated[
        list[UnicodeText], Field(description="other languages that may be spoken", max_length=100)
    ] = Field(default_factory=list)
    timestamps_granularity: Annotated[
        Literal["none", "word", "character"], Field(description="what has times; those of characters are estimated")
    ] = "word"
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, description="above 1 it is 1")] = 0.0
    keyterms: Annotated[list[UnicodeText], Field(description="words to expect", max_length=_MAX_KEYTERMS)] = Field(
        default_factory=list
    )
    file_format: Annotated[
        Literal["other", "pcm_s16le_16"], Field(description="`pcm_s16le_16`: 16-bit samples at 16 kHz without a header")
    ] = "other"
    additional_formats: Annotated[
        list[Export], BeforeValidator(from_json), Field(max_length=10), WithJsonSchema(_EXPORT_SCHEMA)
    ] = Field(default_factory=list)

    def options(self) -> RecognitionOptions:
        """Return the options of the recognition."""
        languages = (self.language_code, *self.secondary_language_codes) if self.secondary_language_codes else ()
        return RecognitionOptions(
            model=None if self.model_id.startswith(MODEL_PREFIX) else self.model_id,
            language=None if languages else self.language_code,
            languages=tuple(filter(None, languages)),
            keywords=tuple(self.keyterms),
            temperature=min(self.temperature, 1.0) or None,
            word_times=True,
        )


class CharacterEntry(BaseModel):
    """Character of a word. Times in seconds."""

    text: str
    start: float
    end: float


class ElevenLabsWord(BaseModel):
    """Word, or the space before the next one. Times in seconds, if they were asked for."""

    text: str
    type: Literal["word", "spacing"]
    logprob: float
    start: float | None = None
    end: float | None = None
    characters: list[CharacterEntry] | None = None


class ExportEntry(BaseModel):
    """Transcript in another form."""

    requested_format: str
    file_extension: str
    content_type: str
    is_base64_encoded: bool = False
    content: str


class SpeechToTextReply(BaseModel):
    """Transcript. `language_code` is an ISO 639 code, empty where nothing was said."""

    language_code: str
    language_probability: float
    text: str
    words: list[ElevenLabsWord]
    transcription_id: str
    audio_duration_secs: float
    additional_formats: list[ExportEntry] | None = None


@router.post(SPEECH_TO_TEXT_PATH, response_model=SpeechToTextReply, openapi_extra=describe_form(SpeechToTextForm))
async def transcribe(request: Request) -> Response:
    """Write down what is spoken in a recording."""
    return SpeechToTextExchange(services(request))


class SpeechToTextExchange(RecordingExchange):
    """Response to a recording. `fields`: those of the form, once they are checked."""

    fields: SpeechToTextForm

    def __init__(self, app: Services) -> None:
        super().__init__(app, "elevenlabs")
        self._received = FormData()

    async def read(self, request: Request, held: AsyncExitStack) -> None:
        """Read the form."""
        form = read_form(request, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        self._received = await held.enter_async_context(form)

    def check(self, headers: Headers) -> None:
        """Check the fields. Raises InvalidRequestError and UnsupportedFormatError."""
        self.fields = read_fields(self._received)

    def options(self) -> RecognitionOptions:
        """Return the options of the recognition."""
        return self.fields.options()

    async def recording(self) -> bytes:
        """Return the recording, with a header where it has none."""
        data: bytes = await self.fields.file.read()
        if self.fields.file_format == "other":
            return data
        return wav_header(_RAW_RATE, len(data) // 2) + data

    async def answer(self, stream: RecognitionStream) -> None:
        """Send everything at once."""
        transcript = await stream.transcript()
        segments, exports = transcript.segments, self.fields.additional_formats
        reply = SpeechToTextReply(
            language_code=transcript.language or "",
            language_probability=round(segments[0].language_probability, 4) if segments else 0.0,
            text=transcript.text,
            words=list(word_entries(segments, self.fields.timestamps_granularity)),
            transcription_id=request_context.request_id.get() or "",
            audio_duration_secs=round(transcript.seconds, _DIGITS),
            additional_formats=[_export(transcript, each) for each in exports] if exports else None,
        )
        await self.respond_whole(reply.model_dump_json(exclude_none=True), "application/json")


def read_fields(form: FormData) -> SpeechToTextForm:
    """Return the checked fields of a form. Raises InvalidRequestError and UnsupportedFormatError."""
    fields: dict[str, Any] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile) != (name == "file"):
            kind = "a file" if name == "file" else "text, not a file"
            raise InvalidRequestError(f"'{name[:40]}' must be {kind}.", param=name[:40])
        if isinstance(value, str) and name in _REFUSED and value.lower() not in _OFF:
            raise InvalidRequestError(f"'{name}' is not supported: {_REFUSED[name]}.", param=name)
        if name in _LISTS:
            fields.setdefault(name, []).append(value)
        elif value not in ("", "null"):
            # Clients send such fields for what their users left empty.
            fields[name] = value
    try:
        result = SpeechToTextForm.model_validate(fields)
    except ValidationError as error:
        raise explain(first_error(error)) from None
    for export in result.additional_formats:
        if export.format not in ("srt", "txt"):
            message = f"A transcript is not written as '{export.format}'; accepted are srt and txt."
            raise UnsupportedFormatError(message, param="additional_formats")
    return result


def word_entries(segments: Sequence[RecognizedSegment], granularity: str = "word") -> Iterator[ElevenLabsWord]:
    """Yield the words of segments, and the spaces between them. `granularity`: "none", "word" or "character"."""
    words = [word for segment in segments for word in segment.words if word.text.strip()]
    for number, word in enumerate(words):
        if number and (word.text[0].isspace() or words[number - 1].text[-1].isspace()):
            before = words[number - 1]
            yield _timed(ElevenLabsWord(text=" ", type="spacing", logprob=0.0), before.end, word.start, granularity)
        text, logprob = word.text.strip(), round(math.log(max(word.probability, 1e-9)), 4)
        entry = _timed(ElevenLabsWord(text=text, type="word", logprob=logprob), word.start, word.end, granularity)
        if granularity == "character":
            # Each is as long as the others.
            seconds = word.end - word.start
            edges = [round(word.start + seconds * place / len(text), _DIGITS) for place in range(len(text) + 1)]
            entry.characters = [
                CharacterEntry(text=each, start=edges[place], end=edges[place + 1]) for place, each in enumerate(text)
            ]
        yield entry


def _timed(entry: ElevenLabsWord, start: float, end: float, granularity: str) -> ElevenLabsWord:
    if granularity != "none":
        entry.start, entry.end = round(start, _DIGITS), round(max(start, end), _DIGITS)
    return entry


def _export(transcript: Transcript, export: Export) -> ExportEntry:
    if export.format == "txt":
        return ExportEntry(
            requested_format="txt", file_extension="txt", content_type="text/plain", content=transcript.text
        )
    content, _ = transcript.render(TranscriptOptions("srt"))
    kind = MEDIA_TYPES["srt"].partition(";")[0]
    return ExportEntry(requested_format="srt", file_extension="srt", content_type=kind, content=content)
