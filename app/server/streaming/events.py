"""The messages of `WS /v1/audio/stream`, as discriminated unions; audio travels as binary frames beside them.

Times and durations are seconds.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter

from app.errors import BodyTooLargeError, ProtocolError
from models.contract import SAMPLING_RANGES, Sampling

MIN_SPEED = 0.25
MAX_SPEED = 4.0
Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 32)]
Speed = Annotated[float, Field(strict=True, ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)]


def _encodable(text: str) -> str:
    # JSON can carry half of a surrogate pair; UTF-8, and so espeak and every log, cannot.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it holds half of a UTF-16 surrogate pair")
    return text


UnicodeText = Annotated[StrictStr, AfterValidator(_encodable)]


def _ranged(name: str, description: str) -> Any:
    low, high = SAMPLING_RANGES[name]
    return Field(
        None, strict=True, ge=low, le=high, allow_inf_nan=False, description=f"{description}; default: the model's"
    )


class SamplingFields(BaseModel):
    """How a model that draws its speech at random does so; what a model does not take, it refuses."""

    exaggeration: float | None = _ranged("exaggeration", "of the emotion")
    cfg_weight: float | None = _ranged("cfg_weight", "of classifier-free guidance; 0: none, and half the work")
    temperature: float | None = _ranged("temperature", "of the drawing; 0: the likeliest token always")
    min_p: float | None = _ranged("min_p", "tokens with less than this part of the likeliest one's chance are left out")
    top_p: float | None = _ranged("top_p", "drawn is from the likeliest tokens that together have this chance")
    repetition_penalty: float | None = _ranged("repetition_penalty", "divides the chances of what was said already")

    @property
    def sampling(self) -> Sampling:
        """The parameters that were given."""
        return Sampling(**{name: getattr(self, name) for name in SAMPLING_RANGES})


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(SamplingFields, _Message):
    """First message: how to speak. `sample_rate` in Hz; None keeps the model's.

    `input` "llm" says that the text is a language model's, as it writes it: Markdown, code, addresses and emoji are
    made speakable, and it is cut where that is soonest heard. `translate_to`, `source` and `translate_model` have the
    text translated first; with `anticipate` the beginning of a sentence is, while it is still being written.
    """

    type: Literal["start"]
    model: UnicodeText | None = None
    voice: UnicodeText | None = None
    format: UnicodeText = "pcm"
    sample_rate: StrictInt | None = None
    speed: Speed = 1.0
    lang: UnicodeText | None = None
    any_language: StrictBool = False
    seed: Seed = 0
    timestamps: StrictBool = False
    input: Literal["text", "llm"] = "text"
    translate_to: UnicodeText | None = None
    source: UnicodeText | None = None
    translate_model: UnicodeText | None = None
    anticipate: StrictBool = True


class Text(_Message):
    """Some text, cut anywhere: sentences are spoken as soon as they are complete."""

    type: Literal["text"]
    text: UnicodeText


class Flush(_Message):
    """Speak what is left and answer with `done`; text after it begins a new stream of audio."""

    type: Literal["flush"]


class Cancel(_Message):
    """Drop everything not sent yet; answered with a `done` whose `cancelled` is true."""

    type: Literal["cancel"]


class End(_Message):
    """Flush, then close."""

    type: Literal["end"]


Incoming = Annotated[Start | Text | Flush | Cancel | End, Field(discriminator="type")]
INCOMING: TypeAdapter[Start | Text | Flush | Cancel | End] = TypeAdapter(Incoming)


class Loading(_Message):
    """Before `ready`, maybe several times: a model is being loaded. `total` steps it has, null: not known yet."""

    type: Literal["loading"] = "loading"
    model: str
    done: int = 0
    total: int | None = None


class Ready(_Message):
    """Answer to `start`: what will be used, and what the speech is marked with."""

    type: Literal["ready"] = "ready"
    model: str
    voice: str
    lang: str
    format: str
    sample_rate: int
    channels: Literal[1] = 1
    translate_to: str | None = None
    request_id: str | None = None
    watermark: Literal["perth", "none"] = "none"


class WordTiming(_Message):
    """A word, when it is spoken, and which characters it is of the text since the last flush.

    Of a text that is translated or cleaned first, they are characters of what is spoken.
    """

    text: str
    start: float
    end: float
    char_start: int
    char_end: int


class Chunk(_Message):
    """What the binary frames that follow hold. `words` only with `timestamps`; a pause has no text.

    `source_text` is what the client sent for this sentence, on its first chunk, where that is not what is spoken.
    """

    type: Literal["chunk"] = "chunk"
    sequence: int
    text: str
    start: float
    duration: float
    source_text: str | None = None
    words: tuple[WordTiming, ...] | None = None


class Done(_Message):
    """The end of what was flushed, or cancelled. `stages` maps a stage to its seconds."""

    type: Literal["done"] = "done"
    cancelled: bool = False
    chunks: int = 0
    audio_duration: float = 0.0
    first_audio: float | None = None
    total: float = 0.0
    real_time_factor: float | None = None
    stages: dict[str, float] = Field(default_factory=dict)


class ErrorDetail(_Message):
    """OpenAI's error object, and the id under which the server's log has it."""

    message: str
    type: str
    param: str | None
    code: str | None
    request_id: str | None = None


class Error(_Message):
    """Something went wrong; when `fatal`, the socket is closed next."""

    type: Literal["error"] = "error"
    error: ErrorDetail
    fatal: bool


Outgoing = Loading | Ready | Chunk | Done | Error


def read_json(frame: str | bytes, most: int) -> Any:
    """What a message of at most `most` bytes holds. Raises BodyTooLargeError, ProtocolError."""
    size = len(frame) if isinstance(frame, bytes) else len(frame.encode("utf-8", "surrogatepass"))
    if size > most:
        raise BodyTooLargeError(f"A message of {size} bytes; at most {most} are accepted.")
    if isinstance(frame, bytes):
        raise ProtocolError("Binary messages are not accepted; send JSON text.")
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        raise ProtocolError("The message is not valid JSON.") from None
