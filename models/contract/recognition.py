"""Models that write down speech: requests, results, and their methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from models.contract.calls import IsCancelled, Pcm, Progress
from models.timeline import Timeline

RecognitionTask = Literal["transcribe", "translate"]


@dataclass(frozen=True, slots=True, eq=False)
class RecognitionRequest:
    """Speech to write down. `pcm` is float32 mono [samples] at the recognizer's sample rate.

    `language` is a code that the model lists; None: it is detected. `task` "translate" writes English. `prompt` is text
    that comes before, or words to expect. `temperature` None: 0, and higher ones where the text looks wrong. `beams` in
    [1, 8] hypotheses are kept at temperature 0. `word_times` asks for the time of each word. `draft` holds the tokens
    of a text that was probably said: they are verified in one pass, and never change the result (one beam at
    temperature 0). `prefix` holds tokens with which the text begins, final ones of earlier audio: the text goes on from
    there, in one segment with words, greedily; None: as usual. It is for models that say `takes_prefix`, and for one
    window. `parts` are spans of samples in their order: each is recognized as if it were alone, several at once where
    that is faster, and the language of the first that has text is that of all; empty: all of `pcm` as one. `voices` are
    spans of samples in which somebody speaks: no window without a voice is read; empty: they are not known. `prosody`:
    the tune of English speech weighs the marks at clause ends again; words stay (not with a prefix). Equal requests
    with equal seeds give equal results on one device.
    """

    pcm: Pcm
    language: str | None = None
    task: RecognitionTask = "transcribe"
    prompt: str = ""
    temperature: float | None = None
    beams: int = 1
    word_times: bool = False
    draft: tuple[int, ...] = ()
    prefix: tuple[int, ...] | None = None
    parts: tuple[tuple[int, int], ...] = ()
    voices: tuple[tuple[int, int], ...] = ()
    prosody: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RecognizedToken:
    """One token of a text: its number, its UTF-8 bytes (perhaps a part of a character), its log-probability."""

    id: int
    text: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class RecognizedWord:
    """One word with the spaces and marks that belong to it, its times in seconds, its probability in [0, 1].

    `heard`: second to which the model listened while it wrote the word; None: it does not tell.
    """

    text: str
    start: float
    end: float
    probability: float
    heard: float | None = None


@dataclass(frozen=True, slots=True)
class RecognizedSegment:
    """A piece of what was said, a sentence or less, in the order of time. Times are in seconds from the start.

    `seek` is the start of its window. `temperature`, `mean_logprob`, `compression` (of the text by zlib) and
    `no_speech` (the probability of silence) are those of the window. `words` are empty unless they were asked for.
    `accepted` counts the tokens of the draft that were right. `draft_score`: log-probability of the whole draft, less
    that of what was heard, by a model that tells it, for a recording of one window. `confidence`: how sure the encoder
    of the window is of the words, a mean log-probability; None: the model does not tell. `language_probability`: of a
    language that was detected; 1 for one that was given.
    """

    start: float
    end: float
    text: str
    language: str
    tokens: tuple[RecognizedToken, ...] = ()
    words: tuple[RecognizedWord, ...] = ()
    seek: float = 0.0
    temperature: float = 0.0
    mean_logprob: float = 0.0
    compression: float = 0.0
    no_speech: float = 0.0
    accepted: int = 0
    draft_score: float | None = None
    confidence: float | None = None
    language_probability: float = 1.0

    def moved(self, offset: float) -> RecognizedSegment:
        """Return this segment, of audio that begins at second `offset`, in its place there."""
        if not offset:
            return self
        words = tuple(
            replace(
                word,
                start=word.start + offset,
                end=word.end + offset,
                heard=None if word.heard is None else word.heard + offset,
            )
            for word in self.words
        )
        start, end, seek = (seconds + offset for seconds in (self.start, self.end, self.seek))
        return replace(self, start=start, end=end, seek=seek, words=words)


@runtime_checkable
class Recognizer(Protocol):
    """A loaded speech recognition model."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of the PCM that it reads."""

    @property
    def languages(self) -> Sequence[str]:
        """ISO 639 codes of the languages that it writes, such as "en"; the first is the usual one."""

    def check(self, request: RecognitionRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve. Safe on any thread; touches no array."""

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, for a draft. Safe on any thread."""

    def recognize(
        self, request: RecognitionRequest, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[RecognizedSegment | None]:
        """Yield the segments of one recording as soon as each is final; none for silence.

        Yields None every few steps, where the thread may turn to other work. Raises ModelRequestError before the first
        segment, Cancelled between steps.
        """
