"""Sentences without their markup, and pauses, for models that read text instead of phonemes."""

from __future__ import annotations

from collections.abc import Iterator

from app.text import markup
from app.text.errors import NothingToSpeakError
from app.text.planner import NOTHING, arrange
from app.text.sentence_splitter import sentences, shorten
from app.text.types import SpeechSegment, Utterance


class TextPlanner:
    """Planner of text in one language, given as a BCP-47 tag, for a model that pronounces text itself. Thread-safe.

    Of `[word](/ipa/)` it keeps the word; of HTML it keeps the visible text. Emoji are left to the model, or named if
    `name_emoji`. Sentences without a letter or digit are left out.
    """

    def __init__(self, language: str, *, name_emoji: bool = False) -> None:
        self._language = language
        self._name_emoji = name_emoji

    def segments(self, text: str, *, symbols: frozenset[str], max_phonemes: int) -> Iterator[SpeechSegment]:
        """Return the segments of `text`, lazily. See `Planner.segments`; `symbols` are phonemes and are ignored."""
        if max_phonemes < 1:
            raise ValueError(f"max_phonemes must be at least 1, not {max_phonemes}")
        marks = markup.parse(text, english=self._language.startswith("en"))
        plain = markup.hide(text, marks)
        if not any(map(str.isalnum, plain)):
            raise NothingToSpeakError(NOTHING)
        pronunciations = [mark for mark in reversed(marks) if isinstance(mark, markup.Pronunciation)]

        def speak(start: int, end: int) -> Iterator[Utterance | None]:
            position = start
            for sentence in sentences(plain, start, end, self._language):
                yield None
                for first, last in shorten(plain, *sentence, max_phonemes):
                    begin = position = max(position, first)  # a pronunciation may reach over a cut
                    parts = []
                    while pronunciations and pronunciations[-1].start < last:
                        mark = pronunciations.pop()
                        parts += [text[position : mark.start], text[mark.word_start : mark.word_end]]
                        position = mark.end
                    parts.append(text[position:last])
                    position = max(position, last)
                    yield from self._utterances(text, begin, position, "".join(parts), max_phonemes)

        return arrange(plain, marks, speak)

    def _utterances(self, text: str, start: int, end: int, read: str, limit: int) -> Iterator[Utterance]:
        """Yield the utterances of `read`, which is [start, end) of `text` without pronunciations."""
        visible = markup.visible_text(read, language=self._language, name_emoji=self._name_emoji)
        read = " ".join((read if visible is None else visible.text).split())
        # Longer than the limit only if a cut fell into a pronunciation, whose word is read whole.
        for cut in shorten(read, 0, len(read), limit):
            if any(map(str.isalnum, read[slice(*cut)])):
                yield _utterance(text, start, end, read[slice(*cut)].strip())


def _utterance(text: str, start: int, end: int, read: str) -> Utterance:
    original = text[start:end]
    start += len(original) - len(original.lstrip())
    original = original.strip()
    return Utterance(original, start, start + len(original), read, ())
