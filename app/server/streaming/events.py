"""Messages of `WS /v1/audio/stream`, as discriminated unions. Audio travels in binary frames between them.

Times and durations are seconds.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import ConfigDict, Field, StrictBool, TypeAdapter, ValidationError

from app.engine.model_loader import ModelState
from app.errors import BodyTooLargeError, ProtocolError, ServiceError
from app.server.exchange import first_error
from app.server.json_values import LARGE, check_values
from app.server.schemas import OptionalFields, OptionFields, UnicodeText
from app.speech.document import InputType
from app.speech.sentence import Word

T = TypeVar("T")


class Message(OptionalFields):
    """Message of a socket. Fields that it does not have are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(OptionFields, Message):
    """First message: the options of the speech. `sample_rate` in Hz; None keeps the model's.

    `input` "llm": the text is a language model's, as it writes it. Markdown, code, addresses and emoji become speakable
    text, which is cut where the first audio comes soonest. "ssml": the text between two flushes is a document of SSML.
    "text": all of it is read. "auto": it is SSML if its root is `<speak>`, else text without a model's thoughts, calls
    of tools and blocks of code. `translate_to`, `source` and `translate_model` have the text
    translated first. `anticipate` translates the beginning of a sentence while the rest is still being written.
    `verify` has a recognizer hear each sentence; `done` tells the result. `lexicons` and `lexicon` give pronunciations.
    `cache` false: no sentence comes from the server's cache, or goes there. `voice_marks`: `[voice:NAME]` in a plain
    text changes the voice. `pauses` are seconds of silence between sentences and paragraphs.
    """

    type: Literal["start"]
    voice: UnicodeText | None = None
    format: UnicodeText = "pcm"
    timestamps: StrictBool = False
    input: InputType = "auto"
    anticipate: StrictBool = True
    voice_marks: StrictBool = True


class Text(Message):
    """Some text, cut anywhere. Sentences are spoken as soon as they are complete."""

    type: Literal["text"]
    text: UnicodeText


class Flush(Message):
    """Order to end the sentence now, and to speak the rest of the text, which `done` answers; then a new set begins."""

    type: Literal["flush"]


class Cancel(Message):
    """Order to drop what was not sent. `done` with `cancelled`, or `sentence_done` of each sentence, answers it."""

    type: Literal["cancel"]


class End(Message):
    """Order to flush, then say `done` and close."""

    type: Literal["end"]


_NOT_JSON = "The message is not valid JSON."

Incoming = Annotated[Start | Text | Flush | Cancel | End, Field(discriminator="type")]
INCOMING: TypeAdapter[Start | Text | Flush | Cancel | End] = TypeAdapter(Incoming)


class Loading(Message):
    """Progress of a model that loads, any number of times before `ready`. `total` steps; null: not known yet."""

    type: Literal["loading"] = "loading"
    model: str
    done: int = 0
    total: int | None = None

    @classmethod
    def of(cls, state: ModelState) -> Loading:
        """Return the progress of a model."""
        done, total = (0, None) if state.step is None else (state.step.done, state.step.total)
        return cls(model=state.name, done=done, total=total)


class Ready(Message):
    """Answer to `start`: the options in use, and the watermark of the speech."""

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


class WordTiming(Message):
    """A word, its times, and its characters in the text since the last flush.

    Where the text is translated or cleaned first, they are characters of the spoken text.
    """

    text: str
    start: float
    end: float
    char_start: int
    char_end: int

    @classmethod
    def of(cls, word: Word, digits: int, moved: float = 0.0) -> WordTiming:
        """Return the timing of a word, `moved` by so many seconds and rounded to `digits`."""
        start, end = round(word.start + moved, digits), round(word.end + moved, digits)
        return cls(text=word.text, start=start, end=end, char_start=word.char_start, char_end=word.char_end)


class MarkTiming(Message):
    """A `<mark>` of SSML, and the second of the stream at which it is reached."""

    name: str
    time: float


class Chunk(Message):
    """Description of the binary frames that follow. `words` only with `timestamps`. A pause has no text.

    `source_text` is the client's text for this sentence, on its first chunk, where another text is spoken. `marks` are
    those of SSML whose times became known; a time may lie before the chunk. The last chunk may have only marks.
    """

    type: Literal["chunk"] = "chunk"
    sequence: int
    text: str
    start: float
    duration: float
    source_text: str | None = None
    words: tuple[WordTiming, ...] | None = None
    marks: tuple[MarkTiming, ...] | None = None


class Warning(Message):  # noqa: A001  (as it stands on the wire)
    """Warning: what is in `ignored`, parts of the client's text or a speed, changes nothing here.

    Those of SSML are told once a session, marks that name no voice once a set.
    """

    type: Literal["warning"] = "warning"
    message: str
    ignored: tuple[str, ...]


class Done(Message):
    """End of a text that was flushed or cancelled. `stages` maps a stage to its seconds."""

    type: Literal["done"] = "done"
    cancelled: bool = False
    chunks: int = 0
    audio_duration: float = 0.0
    first_audio: float | None = None
    total: float = 0.0
    real_time_factor: float | None = None
    stages: dict[str, float] = Field(default_factory=dict)
    verification: dict[str, str | int] | None = None


class ErrorDetail(Message):
    """OpenAI's error object, and the request id, which the server's log has, too."""

    message: str
    type: str
    param: str | None
    code: str | None
    request_id: str | None = None

    @classmethod
    def of(cls, error: ServiceError) -> ErrorDetail:
        """Return the object of an error."""
        return cls.model_validate(error.body())


class Error(Message):
    """Error. Where it is `fatal`, the socket closes next."""

    type: Literal["error"] = "error"
    error: ErrorDetail
    fatal: bool


Outgoing = Loading | Ready | Chunk | Warning | Done | Error


def read_json(frame: str | bytes, most: int) -> Any:
    """Return the JSON value of a message of at most `most` bytes.

    Raises BodyTooLargeError, ProtocolError, and InvalidRequestError for too many values.
    """
    data = frame if isinstance(frame, bytes) else frame.encode("utf-8", "surrogatepass")
    if len(data) > most:
        raise BodyTooLargeError(f"A message of {len(data)} bytes; at most {most} are accepted.")
    if isinstance(frame, bytes):
        raise ProtocolError("Binary messages are not accepted; send JSON text.")
    if len(data) > LARGE:
        check_values(data)
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        raise ProtocolError(_NOT_JSON) from None


def read_message(frame: str | bytes, most: int, adapter: TypeAdapter[T], union: Any) -> T:
    """Return a message of at most `most` bytes: one of `union`, as `adapter` reads it. Raises as `read_json` does."""
    try:
        return adapter.validate_python(read_json(frame, most))
    except ValidationError as error:
        raise ProtocolError(explain(error, union)) from None


def explain(error: ValidationError, incoming: Any) -> str:
    """Return the text for a message that is none of the union `incoming`, or has a wrong field."""
    union, *_ = get_args(incoming)
    kinds = {name: kind for kind in get_args(union) for name in get_args(kind.model_fields["type"].annotation)}
    first = first_error(error)
    if first["type"] == "json_invalid":
        return _NOT_JSON
    if first["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        return f"The message needs a 'type': one of {', '.join(kinds)}."
    if first["type"] in {"model_attributes_type", "dict_type"}:
        return "The message must be a JSON object."
    kind, *path = map(str, first["loc"])
    where = ".".join(path)
    if first["type"] == "extra_forbidden" and len(path) == 1:
        return f"'{kind}' has no '{where}'; accepted are {', '.join(sorted(kinds[kind].model_fields))}."
    return f"'{where}' of '{kind}': {first['msg']}."
