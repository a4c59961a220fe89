"""Sentences of a stream of speech: their text, the times of their words and marks, and their audio in its place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from app.engine.jobs import Results
from app.speech.cache import CachedSentence, RecordedSentence
from app.speech.options import PreparedSpeech
from app.text.places import Places
from app.text.say_as import as_spoken
from app.text.types import PLAIN, Bookmark, PhonemizedSentence, Script, Style
from models.contract import AudioChunk, Pcm, SpeechRequest

# Seconds by which a duration model's alignment is late: three frames of Kokoro, as in its KPipeline.join_timestamps.
LATE: Final = 0.075

SentenceResults = Results[AudioChunk] | RecordedSentence | CachedSentence


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the input, with the seconds of the stream in which it is spoken."""

    text: str
    start: float
    end: float
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class MarkTime:
    """A bookmark of the input, and the second of the stream at which it is reached."""

    name: str
    time: float


@dataclass(frozen=True, slots=True)
class SpokenChunk:
    """A piece of audio in its place in the stream. `pcm` is float32 [samples]; times in seconds from its start.

    `words` are those that end in this piece, `marks` those whose times became known. A pause has no text. `source` is
    the client's text for the sentence, on its first piece, where another text is spoken; then characters are counted
    in the spoken text. `last`: this piece ends its sentence.
    """

    pcm: Pcm
    start: float
    duration: float
    text: str
    char_start: int
    char_end: int
    words: tuple[Word, ...]
    source: str | None = None
    last: bool = True
    marks: tuple[MarkTime, ...] = ()

    def without_audio(self) -> SpokenChunk:
        """Return the text and the times alone: they are kept for long, and need little memory."""
        return replace(self, pcm=np.zeros(0, np.float32))


@dataclass(frozen=True, slots=True)
class Origin:
    """Place of a text in the client's: it begins at character `offset`, or its script maps it from there on.

    `style`: the manner of a text without a script.
    """

    offset: int = 0
    source: str | None = None
    script: Script | None = None
    style: Style = PLAIN

    def translated(self, offset: int, source: str | None) -> Origin:
        """Return the place of a translated sentence: from character `offset` of the spoken text on."""
        script = None if self.script is None else Script(Places(), self.script.style)
        return Origin(offset, source, script, self.style)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the client's text for [start, end)."""
        if self.script is None:
            return self.offset + start, self.offset + end
        return self.offset + self.script.places.start(start), self.offset + self.script.places.end(end)

    @property
    def gain(self) -> float:
        """Volume of the text."""
        return (self.style if self.script is None else self.script.style).gain


def take_translated(bookmarks: deque[Bookmark], start: int, end: int, length: int) -> deque[Bookmark]:
    """Remove the bookmarks before `end`. Return them for the translation of [start, end), of `length` characters.

    Words of a translation have other places: a bookmark keeps its share of the sentence.
    """
    taken: deque[Bookmark] = deque()
    while bookmarks and bookmarks[0].position < end:
        mark = bookmarks.popleft()
        share = max(mark.position - start, 0) / (end - start)
        taken.append(replace(mark, position=round(share * length)))
    return taken


class SubmittedSentence:
    """A sentence that the model thread has, and the times of its words and bookmarks.

    Its audio begins at second `begin` of the stream. `speech` is its voice and speed, `gain` its volume.
    """

    def __init__(
        self,
        utterance: PhonemizedSentence,
        origin: Origin,
        speech: PreparedSpeech,
        request: SpeechRequest,
        results: SentenceResults,
    ) -> None:
        self.text = utterance.text
        # Words that a listener should hear.
        self.expected = self.text
        if origin.script is not None and origin.script.readings:
            span = utterance.char_start, utterance.char_end
            self.expected = as_spoken(self.text, *span, origin.script.readings, speech.language)
        self.speech = speech
        self.rate = speech.synthesizer.sample_rate
        self.request = request
        self.char_start, self.char_end = origin.span(utterance.char_start, utterance.char_end)
        self.source = origin.source
        self.results = results
        self.begin = 0.0
        self.gain = origin.gain
        self.bookmarks: deque[Bookmark] = deque()
        self._marks: list[MarkTime] = []
        self._utterance = utterance
        self._words = deque(utterance.words)
        self._origin = origin
        # Seconds from the start of the sentence at which its phonemes end, as far as they are known.
        self.phoneme_ends: list[float] = []

    def take_words(self, cut: float, least: float, most: float) -> tuple[Word, ...]:
        """Return the words whose ends are known; each is returned once.

        `cut` seconds were trimmed from the start of the sentence. Its sound lies between `least` and `most` seconds of
        what is left, and so do its words.
        """
        result = []
        while self._words and self._beside(self._words[0].phoneme_end)[1] <= len(self.phoneme_ends):
            span = self._words.popleft()
            bounds = (self._boundary(span.phoneme_start), self._boundary(span.phoneme_end))
            start, end = (self.begin + min(max(least, each - cut), most) for each in bounds)
            while self.bookmarks and self.bookmarks[0].position <= span.char_start:
                self._marks.append(MarkTime(self.bookmarks.popleft().name, start))
            result.append(Word(span.text, start, end, *self._origin.span(span.char_start, span.char_end)))
        return tuple(result)

    def _beside(self, position: int) -> tuple[int, int]:
        """Return a place between two phonemes as a range, which has the space that is beside it."""
        phonemes = self._utterance.phonemes
        return (
            position - (phonemes[position - 1 : position] == " "),
            position + (phonemes[position : position + 1] == " "),
        )

    def _boundary(self, position: int) -> float:
        """Return the second of the place before phoneme `position`; a space there is halved."""
        return sum(self.phoneme_ends[each - 1] if each else 0.0 for each in self._beside(position)) / 2 - LATE

    def take_marks(self, seconds: float, *, last: bool) -> tuple[MarkTime, ...]:
        """Return the marks whose times became known. `seconds` of the sentence are spoken; `last`: that is all of it.

        The time of a mark is that of the next word. Where words have no times, it is in proportion to the characters.
        """
        if last:
            start, length = self._utterance.char_start, max(1, len(self.text))
            while self.bookmarks:
                mark = self.bookmarks.popleft()
                share = 1.0 if self._utterance.words else (mark.position - start) / length
                self._marks.append(MarkTime(mark.name, self.begin + seconds * min(max(share, 0.0), 1.0)))
        marks, self._marks = tuple(self._marks), []
        return marks
