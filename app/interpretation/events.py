"""Events of an interpretation. Positions are seconds of the audio that came; `number` counts sentences from 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.errors import ServiceError
from app.recognition.events import LiveEvent
from app.speech.sentence import SpokenChunk
from app.speech.stream import SpeechStream
from models.timeline import Timeline

Ending = Literal["spoken", "unspoken", "muted", "late", "unchanged", "cancelled", "failed"]
Reached = Literal["recognized", "translated", "spoken"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence that is translated next. It was spoken from `start` to `end` in utterance `item`."""

    number: int
    item: int
    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TranslatedPart:
    """Translation of a sentence, or of a part of it. Not `translated`: it is in the listener's language already."""

    number: int
    source_text: str
    text: str
    translated: bool


@dataclass(frozen=True, slots=True)
class SpeechPart:
    """Audio of a sentence. It is played `start` seconds after the session's first sample, at `speed`.

    Call `Interpretation.delivered` once it is handed to the transport.
    """

    number: int
    chunk: SpokenChunk
    start: float
    speed: float
    stream: SpeechStream


@dataclass(frozen=True, slots=True)
class SentenceDone:
    """End of a sentence.

    `ending`: spoken; unspoken, where the translation has nothing that can be; muted; late, left out because speech was
    too far behind; unchanged, in the listener's language already; cancelled; failed, by `error`. `latency`: seconds
    from the end of the spoken sentence. `delay`: seconds from there to the start of its audio in a player.
    """

    number: int
    ending: Ending
    latency: dict[Reached, float]
    delay: float | None
    timeline: Timeline
    error: ServiceError | None = None


@dataclass(frozen=True, slots=True)
class VoiceCloned:
    """The sentences that follow are spoken by `model` in the voice of who speaks, made of `seconds` of speech.

    With an `error` that voice cannot be made, and they are spoken as before.
    """

    model: str
    seconds: float
    error: ServiceError | None = None


Event = LiveEvent | Sentence | TranslatedPart | SpeechPart | SentenceDone | VoiceCloned
