"""Messages of `WS /v1/audio/interpret`, as discriminated unions. Audio travels in binary frames, in both directions.

Positions are seconds of the audio that the client sent. Durations are seconds, too.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, TypeAdapter

from app.audio.resample import MAX_RATE, MIN_RATE
from app.interpretation.events import Ending, Reached
from app.interpretation.options import MAX_DELAY, MAX_SPEED, PAUSE
from app.server.schemas import SamplingFields, Seed, Speed, UnicodeText
from app.server.streaming.events import Cancel, End, Error, ErrorDetail, Flush, Loading, Message, WordTiming

MAX_KEYWORDS = 100


class Target(Message):
    """Options that may change while somebody speaks: the language to speak, its translation, model and voice."""

    target: UnicodeText | None = None
    translate_model: UnicodeText | None = None
    model: UnicodeText | None = None
    voice: UnicodeText | None = None
    any_language: StrictBool | None = None
    speed: Speed | None = None


class InterpretationStart(SamplingFields, Message):
    """First message. `target` is the language to speak; `source` what is spoken, detected by default.

    `input_format` and `input_rate` (Hz): the audio that is sent, mono samples of 16 bits, or of G.711. `format` and
    `sample_rate`: the audio that comes back.
    `pause`: seconds of silence that end a sentence; null: `flush` does. `speed` is multiplied by up to `max_speed`
    while speech is behind; what would begin more than `max_delay` seconds late is written, not spoken. `partials`: tell
    what is heard before it is sure. `clauses`: translate the first clause of a long sentence before the sentence ends.
    `prompt` and `keywords` help the recognizer. `muted`: text only. `clone_voice`: speak in the voice of who speaks,
    once enough was heard, with their `consent`; in `voice` until then.
    """

    type: Literal["start"]
    target: UnicodeText
    source: UnicodeText | None = None
    recognition_model: UnicodeText | None = None
    translate_model: UnicodeText | None = None
    model: UnicodeText | None = None
    voice: UnicodeText | None = None
    any_language: StrictBool = False
    input_format: Literal["pcm", "mulaw", "alaw"] = "pcm"
    input_rate: Annotated[StrictInt, Field(ge=MIN_RATE, le=MAX_RATE)] = 16_000
    format: UnicodeText = "pcm"
    sample_rate: StrictInt | None = None
    speed: Speed = 1.0
    max_speed: Annotated[float, Field(ge=1.0, le=2.0)] = MAX_SPEED
    max_delay: Annotated[float, Field(ge=0.0, le=600.0)] = MAX_DELAY
    seed: Seed = 0
    pause: Annotated[float, Field(ge=0.1, le=5.0)] | None = PAUSE
    partials: StrictBool = True
    timestamps: StrictBool = False
    clauses: StrictBool = False
    anticipate: StrictBool = True
    muted: StrictBool = False
    clone_voice: StrictBool = False
    consent: StrictBool = False
    prompt: UnicodeText = ""
    keywords: Annotated[tuple[UnicodeText, ...], Field(max_length=MAX_KEYWORDS)] = ()


class Update(Target):
    """Change options for the sentences that follow. `updated` answers it."""

    type: Literal["update"]


class Mute(Message):
    """Order to speak nothing from now on, and to drop what waits to be spoken, or to speak again. Text goes on."""

    type: Literal["mute"]
    muted: StrictBool = True


Incoming = Annotated[InterpretationStart | Update | Flush | Mute | Cancel | End, Field(discriminator="type")]
INCOMING: TypeAdapter[InterpretationStart | Update | Flush | Mute | Cancel | End] = TypeAdapter(Incoming)


class Chosen(Message):
    """Choices of the server."""

    target: str
    source: str | None
    recognition_model: str
    translate_model: str
    model: str
    voice: str
    lang: str
    format: str
    sample_rate: int
    channels: Literal[1] = 1
    watermark: Literal["perth", "none"] = "none"


class InterpretationReady(Chosen):
    """Answer to `start`: the options in use. Audio may be sent now."""

    type: Literal["ready"] = "ready"
    input_format: str
    input_rate: int
    request_id: str | None = None


class Updated(Chosen):
    """Answer to `update`: the options in use for the sentences that follow."""

    type: Literal["updated"] = "updated"


class VoiceClonedMessage(Message):
    """The sentences that follow are spoken by `model` in the voice of who speaks, made of `seconds` of speech."""

    type: Literal["voice_cloned"] = "voice_cloned"
    model: str
    seconds: float


class SpeechStartedMessage(Message):
    """Somebody speaks since `start`. `item` counts utterances."""

    type: Literal["speech_started"] = "speech_started"
    item: int
    start: float


class SpeechStoppedMessage(Message):
    """The utterance has ended at `end`."""

    type: Literal["speech_stopped"] = "speech_stopped"
    item: int
    end: float


class Partial(Message):
    """Text that is heard so far: `committed` does not change, `pending`, which follows it, may."""

    type: Literal["partial"] = "partial"
    item: int
    start: float
    end: float
    committed: str
    pending: str


class UtteranceMessage(Message):
    """Whole text of an utterance, and the code of the language that was spoken. `warning`: why text was left out."""

    type: Literal["utterance"] = "utterance"
    item: int
    start: float
    end: float
    text: str
    language: str | None
    warning: str | None = None


class SentenceMessage(Message):
    """Sentence that is translated next. `number` counts sentences."""

    type: Literal["sentence"] = "sentence"
    number: int
    item: int
    text: str
    start: float
    end: float


class TranslationMessage(Message):
    """Translation of a sentence, or of a part of it: several of one `number` follow each other."""

    type: Literal["translation"] = "translation"
    number: int
    source_text: str
    text: str


class InterpretationChunk(Message):
    """Description of the binary frames that follow. `words` only with `timestamps`.

    `start` is the time at which a player begins it, in seconds since the first sample that was sent: never before the
    end of the chunk before it.
    """

    type: Literal["chunk"] = "chunk"
    sequence: int
    number: int
    text: str
    start: float
    duration: float
    speed: float
    words: tuple[WordTiming, ...] | None = None


class SentenceDoneMessage(Message):
    """End of a sentence, whose audio is whole. `latency`: seconds from its spoken end to its text, translation, audio.

    `delay`: seconds from its spoken end to the beginning of its audio in a player; null: it has none. `stages` maps a
    stage to its seconds.
    """

    type: Literal["sentence_done"] = "sentence_done"
    number: int
    ending: Ending
    latency: dict[Reached, float]
    delay: float | None
    audio_duration: float
    stages: dict[str, float]
    error: ErrorDetail | None = None


class InterpretationDone(Message):
    """End of everything, after `end`. `input_duration`, `audio_duration`: seconds that were heard, and spoken."""

    type: Literal["done"] = "done"
    sentences: int
    input_duration: float
    audio_duration: float


class InterpretationError(Error):
    """Error. Where it is `fatal`, the socket closes next. `item`: the utterance that failed, if it was one."""

    item: int | None = None


Outgoing = (
    Loading
    | InterpretationReady
    | Updated
    | SpeechStartedMessage
    | SpeechStoppedMessage
    | Partial
    | UtteranceMessage
    | SentenceMessage
    | TranslationMessage
    | InterpretationChunk
    | SentenceDoneMessage
    | InterpretationDone
    | InterpretationError
)
