"""Fields of a request for a transcription: OpenAI's multipart form (platform.openai.com, "Audio"), checked.

Clients write lists as `name` or `name[]`, and objects as `name[key]` or as JSON.
"""

from __future__ import annotations

import binascii
import re
from typing import Annotated, Any, Literal, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from starlette.datastructures import FormData, UploadFile

from app.audio.vad import SPEECH, VoiceOptions
from app.errors import InvalidRequestError, UnsupportedFormatError
from app.recognition.service import RecognitionOptions
from app.recognition.transcript import TRANSCRIPT_FORMATS, TranscriptFormat, TranscriptOptions
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.forms import from_json
from app.server.schemas import OptionalFields, UnicodeText
from models.contract import RecognitionTask

MAX_FIELDS = 200
MAX_FIELD_BYTES = 65_536
# A JSON body is in memory as a whole.
MAX_JSON_BYTES = 32 << 20
# Characters of base64 that are decoded at once: a multiple of four.
_BASE64_CHUNK = 1 << 16
# A JSON body may be large, as it has the recording; what else is in it is little.
_MAX_CONTAINERS, _MAX_VALUES = 1_000, 20_000
_MAX_MILLISECONDS = 60_000
_NAME = re.compile(r"(\w{1,40})(?:\[(\w{0,40})\])?", re.ASCII)
_SPEAKERS = "Speakers are not told apart here"


class _Chunking(BaseModel):
    """`auto`, or OpenAI's parameters of the detection of voices, in milliseconds."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["auto", "server_vad"]
    prefix_padding_ms: Annotated[int, Field(ge=0, le=_MAX_MILLISECONDS)] = round(SPEECH.padding * 1_000)
    silence_duration_ms: Annotated[int, Field(ge=32, le=_MAX_MILLISECONDS)] = round(SPEECH.min_silence * 1_000)
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = SPEECH.threshold

    @property
    def voices(self) -> VoiceOptions:
        """Options of the detection."""
        return VoiceOptions(
            self.threshold, SPEECH.min_speech, self.silence_duration_ms / 1_000, self.prefix_padding_ms / 1_000
        )


def _chunking(value: Any) -> Any:
    """Return the object for `auto`, and for an object that was written as JSON."""
    return {"type": value} if isinstance(value, str) and not value.lstrip().startswith("{") else from_json(value)


_CHUNKING_SCHEMA = {
    "description": "cut the recording at its pauses, and leave silence out: `auto`, or parameters of the detection of "
    "voices; default: as a whole",
    "anyOf": [{"type": "string", "enum": ["auto"]}, _Chunking.model_json_schema()],
}


class TranslationForm(OptionalFields):
    """`POST /v1/audio/translations`, a form. Unknown parameters change nothing: `x-ignored` names them."""

    model_config = ConfigDict(extra="allow")

    file: Annotated[
        Any,
        Field(
            description="the recording: WAV, FLAC, MP3, Ogg, AAC, MP4, WebM, AMR, AIFF or CAF",
            json_schema_extra={"type": "string", "format": "binary"},
        ),
    ]
    model: Annotated[
        UnicodeText | None, Field(description="a name of GET /v1/models; whisper-1 and its like mean the default")
    ] = None
    prompt: Annotated[UnicodeText, Field(description="text that comes before, or words to expect")] = ""
    response_format: Annotated[
        TranscriptFormat | Literal["diarized_json"],
        Field(description="form of the answer", json_schema_extra={"enum": list(TRANSCRIPT_FORMATS)}),
    ] = "json"
    temperature: Annotated[
        float, Field(ge=0, le=1, allow_inf_nan=False, description="0: and higher ones where the text looks wrong")
    ] = 0.0

    @property
    def streamed(self) -> bool:
        """Whether server-sent events are asked for."""
        return False

    def options(self) -> RecognitionOptions:
        """Return the options of the recognition."""
        return RecognitionOptions(
            model=self.model, task="translate", prompt=self.prompt, temperature=self.temperature or None
        )

    def form(self) -> TranscriptOptions:
        """Return the form of the answer. Raises UnsupportedFormatError and InvalidRequestError."""
        if self.response_format == "diarized_json":
            accepted = ", ".join(TRANSCRIPT_FORMATS)
            raise UnsupportedFormatError(f"{_SPEAKERS}, so there is no diarized_json; accepted are {accepted}.")
        return TranscriptOptions(self.response_format)


class TranscriptionForm(TranslationForm):
    """`POST /v1/audio/transcriptions`, likewise."""

    language: Annotated[
        UnicodeText | None,
        AfterValidator(lambda name: None if name is None or name.strip().lower() == "auto" else name),
        Field(description="code, tag or English name of what is spoken; absent or auto: detected"),
    ] = None
    languages: Annotated[list[UnicodeText], Field(description="languages that may be spoken", max_length=100)] = Field(
        default_factory=list
    )
    keywords: Annotated[list[UnicodeText], Field(description="words to expect", max_length=100)] = Field(
        default_factory=list
    )
    timestamp_granularities: Annotated[
        list[Literal["word", "segment"]],
        Field(max_length=100, description="what has times in `verbose_json`; default: segment"),
    ] = Field(default_factory=list)
    include: Annotated[
        list[Literal["logprobs"]],
        Field(max_length=100, description="`logprobs`: those of the tokens, with the format `json`"),
    ] = Field(default_factory=list)
    stream: Annotated[bool, Field(description="server-sent events, segment by segment")] = False
    chunking_strategy: Annotated[
        _Chunking | None, BeforeValidator(_chunking), WithJsonSchema(_CHUNKING_SCHEMA, mode="validation")
    ] = None
    known_speaker_names: Annotated[
        list[str], Field(max_length=100, description="refused: speakers are not told apart")
    ] = Field(default_factory=list)
    known_speaker_references: Annotated[list[str], Field(max_length=100, description="refused likewise")] = Field(
        default_factory=list
    )

    @property
    def streamed(self) -> bool:
        """Whether server-sent events are asked for."""
        return self.stream

    def options(self) -> RecognitionOptions:
        """Return the options of the recognition."""
        return RecognitionOptions(
            model=self.model,
            language=self.language,
            languages=tuple(self.languages),
            prompt=self.prompt,
            keywords=tuple(self.keywords),
            temperature=self.temperature or None,
            word_times="word" in self.timestamp_granularities,
            chunks=None if self.chunking_strategy is None else self.chunking_strategy.voices,
        )

    def form(self) -> TranscriptOptions:
        """Return the form of the answer. Raises UnsupportedFormatError and InvalidRequestError."""
        for param in ("known_speaker_names", "known_speaker_references"):
            if getattr(self, param):
                raise InvalidRequestError(f"{_SPEAKERS}: '{param}' has no meaning.", param=param)
        form = super().form()
        if self.timestamp_granularities and form.format != "verbose_json":
            raise InvalidRequestError(
                "'timestamp_granularities' needs 'response_format' verbose_json.", param="timestamp_granularities"
            )
        if self.include and form.format != "json":
            raise InvalidRequestError("'include' logprobs needs 'response_format' json.", param="include")
        if self.stream and form.format not in ("json", "text"):
            raise InvalidRequestError(
                f"'{form.format}' is sent whole: 'stream' needs 'response_format' json or text.", param="stream"
            )
        return TranscriptOptions(
            form.format,
            segments="segment" in self.timestamp_granularities or not self.timestamp_granularities,
            words="word" in self.timestamp_granularities,
            logprobs=bool(self.include),
        )


_FORMS: dict[RecognitionTask, type[TranslationForm]] = {"transcribe": TranscriptionForm, "translate": TranslationForm}
_LISTS = frozenset(
    name for name, field in TranscriptionForm.model_fields.items() if get_origin(field.annotation) is list
)


def read_fields(form: FormData, task: RecognitionTask) -> TranslationForm:
    """Return the checked fields of a form. Raises InvalidRequestError."""
    kind = _FORMS[task]
    fields: dict[str, Any] = {}
    for key, value in form.multi_items():
        _take(fields, key, value)
    if "file" not in fields:
        raise InvalidRequestError(
            "Missing required parameter: 'file', the recording, in a body of 'multipart/form-data'.", param="file"
        )
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise explain(first_error(error)) from None


class _InputAudio(BaseModel):
    """Recording in a JSON body. `format` is not needed: the bytes tell it."""

    model_config = ConfigDict(extra="forbid")

    data: str
    format: UnicodeText | None = None


class _JsonBody(BaseModel):
    """JSON body: the fields of a form, and `input_audio` in place of its file."""

    model_config = ConfigDict(extra="allow")

    input_audio: _InputAudio


def read_json_fields(body: bytes, task: RecognitionTask) -> TranslationForm:
    """Return the checked fields of a JSON body; `file` is the recording, as bytes. Raises InvalidRequestError."""
    kind = _FORMS[task]
    if body.count(b"{") + body.count(b"[") > _MAX_CONTAINERS or body.count(b",") > _MAX_VALUES:
        raise InvalidRequestError(
            f"The body has more than {_MAX_CONTAINERS} lists and objects or {_MAX_VALUES} values."
        )
    try:
        result = _JsonBody.model_validate_json(body)
        fields = {key: value for key, value in (result.model_extra or {}).items() if value != ""}
        if "file" in fields:
            raise InvalidRequestError("A JSON body has 'input_audio' in place of 'file'.", param="file")
        return kind.model_validate(fields | {"file": _from_base64(result.input_audio.data)})
    except ValidationError as error:
        raise explain(first_error(error)) from None


def _from_base64(text: str) -> bytes:
    """Return the bytes of base64, a piece at a time: other threads run meanwhile. Raises InvalidRequestError."""
    try:
        pieces = [text[start : start + _BASE64_CHUNK] for start in range(0, len(text), _BASE64_CHUNK)]
        if any(piece.endswith("=") for piece in pieces[:-1]):
            raise ValueError("padding in the middle")
        return b"".join(binascii.a2b_base64(piece, strict_mode=True) for piece in pieces)
    except ValueError:
        raise InvalidRequestError("'input_audio.data' is not valid base64.", param="input_audio") from None


def _take(fields: dict[str, Any], key: str, value: str | UploadFile) -> None:
    """Put one part of a form into `fields`. Raises InvalidRequestError."""
    match = _NAME.fullmatch(key)
    name, inner = (key, None) if match is None else match.groups()
    if isinstance(value, UploadFile) != (name == "file"):
        raise InvalidRequestError(
            f"'{key[:40]}' must be {'a file' if name == 'file' else 'text, not a file'}.", param=key[:40]
        )
    if name in _LISTS and not inner:
        fields.setdefault(name, []).append(value)
    elif inner and isinstance(fields.setdefault(name, {}), dict):
        fields[name][inner] = value
    elif name in fields and name in TranscriptionForm.model_fields:
        raise InvalidRequestError(f"'{name[:40]}' is given twice.", param=name[:40])
    elif value != "":
        # Clients send empty fields for what their users left empty.
        fields[name] = value
