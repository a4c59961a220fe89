"""Order of utterances and pauses in a text, the same for models that read phonemes and models that read text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from app.text import markup
from app.text.errors import NothingToSpeakError
from app.text.sentence_splitter import paragraphs
from app.text.types import Pause, SpeechSegment, Utterance

PARAGRAPH_PAUSE: Final = 0.35
"""Seconds of silence between paragraphs."""

NOTHING: Final = "the text has nothing to speak: it needs at least one letter or digit"
"""Message of NothingToSpeakError."""

Speak = Callable[[int, int], Iterator[Utterance | None]]
"""Makes the utterances of the paragraph [first, last), and None before those of each sentence."""

# A pause of no length is reported after so many sentences without an utterance.
_SILENT_SENTENCES: Final = 8


def arrange(plain: str, marks: list[markup.Mark], speak: Speak) -> Iterator[SpeechSegment]:
    """Yield the utterances that `speak` makes of each paragraph, and the pauses between them.

    `plain` is the text as `markup.hide` returns it. Raises NothingToSpeakError at the end if nothing was spoken.
    """
    spoken = False
    silent = 0
    gap = 0.0  # silence that is due before the next utterance
    for start, end, seconds in regions(plain, marks):
        for first, last in paragraphs(plain, start, end):
            before = gap
            for utterance in speak(first, last):
                if utterance is None:
                    silent += 1
                    if silent % _SILENT_SENTENCES == 0:
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


def regions(plain: str, marks: list[markup.Mark]) -> Iterator[tuple[int, int, float]]:
    """Yield the spans between explicit pauses, each with the seconds of the pause after it."""
    position = 0
    for mark in marks:
        if isinstance(mark, markup.PauseMark):
            yield position, mark.start, mark.seconds
            position = mark.end
    yield position, len(plain), 0.0
