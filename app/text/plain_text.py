"""Text for models that read text themselves: sentences without their markup, and pauses.

Where the text is cut, and which silences come between, is the same for models that read phonemes: `arrange`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from app.text import markup
from app.text.errors import NothingToSpeakError
from app.text.sentence_splitter import paragraphs, sentences, shorten
from app.text.types import Pause, Segment, Utterance
from app.text.view import view

PARAGRAPH_PAUSE: Final = 0.35
"""Seconds of silence between paragraphs."""

NOTHING: Final = "the text has nothing to speak: it needs at least one letter or digit"

# None: a sentence was looked at.
Speak = Callable[[int, int], Iterator[Utterance | None]]

# Sentences without anything to say after which a pause of no length says that the planner got on.
_SILENT: Final = 8


def arrange(hidden: str, marks: list[markup.Mark], speak: Speak) -> Iterator[Segment]:
    """The utterances that `speak` makes of each paragraph [first, last), and the pauses between them.

    `hidden` is the text as `markup.hide` leaves it. Raises NothingToSpeakError at the end if nothing was spoken.
    """
    spoken = False
    silent = 0
    gap = 0.0  # silence owed before the next utterance
    for start, end, seconds in regions(hidden, marks):
        for first, last in paragraphs(hidden, start, end):
            before = gap
            for utterance in speak(first, last):
                if utterance is None:
                    silent += 1
                    if silent % _SILENT == 0:
                        yield Pause(0.0)
                    continue
                silent = 0
                if before:
                    yield Pause(before)
                spoken, before, gap = True, 0.0, PARAGRAPH_PAUSE
                yield utterance
        gap = 0.0
        if seconds:
            yield Pause(seconds)
    if not spoken:
        raise NothingToSpeakError(NOTHING)


def regions(hidden: str, marks: list[markup.Mark]) -> Iterator[tuple[int, int, float]]:
    """The spans between explicit pauses, each with the seconds of the pause after it."""
    position = 0
    for mark in marks:
        if isinstance(mark, markup.PauseMark):
            yield position, mark.start, mark.seconds
            position = mark.end
    yield position, len(hidden), 0.0


class Reader:
    """Plans text of one language, a BCP-47 tag, for a model that pronounces it itself. Thread-safe.

    Of `[word](/ipa/)` the word is read, of HTML what its reader sees; emoji are left to the model, or named if
    `name_emoji`. Sentences without a letter or digit are left out.
    """

    def __init__(self, language: str, *, name_emoji: bool = False) -> None:
        self._language = language
        self._name_emoji = name_emoji

    def segments(self, text: str, *, symbols: frozenset[str], max_phonemes: int) -> Iterator[Segment]:
        """As `Planner.segments`; `symbols` are phonemes, and not looked at."""
        if max_phonemes < 1:
            raise ValueError(f"max_phonemes must be at least 1, not {max_phonemes}")
        marks = markup.parse(text, english=self._language.startswith("en"))
        hidden = markup.hide(text, marks)
        if not any(map(str.isalnum, hidden)):
            raise NothingToSpeakError(NOTHING)
        pronunciations = [mark for mark in reversed(marks) if isinstance(mark, markup.Pronunciation)]

        def speak(start: int, end: int) -> Iterator[Utterance | None]:
            position = start
            for sentence in sentences(hidden, start, end, self._language):
                yield None
                for first, last in shorten(hidden, *sentence, max_phonemes):
                    begin = position = max(position, first)  # a pronunciation may reach over a cut
                    parts = []
                    while pronunciations and pronunciations[-1].start < last:
                        mark = pronunciations.pop()
                        parts += [text[position : mark.start], text[mark.word_start : mark.word_end]]
                        position = mark.end
                    parts.append(text[position:last])
                    position = max(position, last)
                    read = "".join(parts)
                    seen = view(read, language=self._language, name_emoji=self._name_emoji)
                    read = " ".join((read if seen is None else seen.text).split())
                    # Longer than its span only where that was cut inside a mark, whose word is read whole.
                    for cut in shorten(read, 0, len(read), max_phonemes):
                        if any(map(str.isalnum, read[slice(*cut)])):
                            yield _utterance(text, begin, position, read[slice(*cut)].strip())

        return arrange(hidden, marks, speak)


def _utterance(text: str, start: int, end: int, read: str) -> Utterance:
    original = text[start:end]
    start += len(original) - len(original.lstrip())
    original = original.strip()
    return Utterance(original, start, start + len(original), read, ())
