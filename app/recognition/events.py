"""Options of a live recognition, and its events."""

from __future__ import annotations

from dataclasses import dataclass

from app.audio.vad import SPEECH, VoiceOptions
from app.errors import ServiceError
from app.recognition.agreement import PolicyName
from models.contract import RecognizedSegment, RecognizedWord


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechContext:
    """What may be spoken, what comes before it, and who hears it. None means the default.

    `language` is a code, a tag or an English name; None: it is detected. `languages` are those that may be spoken. The
    `keywords` are words to expect. `word_times`: hypotheses and segments have words.
    """

    model: str | None = None
    language: str | None = None
    languages: tuple[str, ...] = ()
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    word_times: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions(SpeechContext):
    """Options of a live recognition. None means the default.

    `detection` finds the utterances; None: the client commits each of them. `partials`: there are hypotheses while
    somebody speaks. `sentence_pause`: seconds of silence that end an utterance of `detection` sooner, where its text
    ends with a sentence; needs `partials`. `policy` tells which words are committed.
    """

    detection: VoiceOptions | None = SPEECH
    partials: bool = True
    sentence_pause: float | None = None
    policy: PolicyName | None = None


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Somebody speaks since `start`. There is none without `detection`. `item` counts the utterances from 0.

    Times are seconds since the first sample.
    """

    item: int
    start: float


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The utterance ended at `end`; its text follows. `committed`: the client ended it."""

    item: int
    end: float
    committed: bool = False


@dataclass(frozen=True, slots=True)
class LiveHypothesis:
    """Text of an utterance from `start` to `end`, where its audio ends so far.

    The text is `committed` + `pending`. Within an item, `committed` only grows. `words` are empty without `word_times`.
    """

    item: int
    start: float
    end: float
    committed: str
    pending: str
    words: tuple[RecognizedWord, ...]


@dataclass(frozen=True, slots=True)
class LiveUtterance:
    """Final text of an utterance; it begins with what was committed. Empty: nothing was said.

    `language`: code of what was spoken; None: nothing was. `segments` have times since the first sample of the stream.
    `warning`: why text was left out; None: none was.
    """

    item: int
    start: float
    end: float
    text: str
    language: str | None
    segments: tuple[RecognizedSegment, ...]
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class UtteranceFailed:
    """The utterance could not be recognized. The next ones may be."""

    item: int
    start: float
    end: float
    error: ServiceError


LiveEvent = SpeechStarted | SpeechStopped | LiveHypothesis | LiveUtterance | UtteranceFailed
