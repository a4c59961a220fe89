"""Planner of speech for models that read phonemes: utterances with their phonemes, and pauses."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Final

from app.text import markup
from app.text.errors import NothingToSpeakError
from app.text.languages import find_language, normalize_language
from app.text.pieces import KOKORO_SYMBOLS, Piece, PieceKind, append_mark, make_utterances
from app.text.planner import NOTHING, arrange, regions
from app.text.pronouncers import make_pronouncer
from app.text.sentence_splitter import paragraphs, sentences
from app.text.tokens import make_tokens
from app.text.types import SpeechSegment, Token, Utterance


class _Request:
    """One text that is being planned. `pronunciations` are those that are left, the next one last."""

    def __init__(
        self, text: str, plain: str, marks: list[markup.Mark], *, symbols: frozenset[str], max_phonemes: int
    ) -> None:
        self.text = text
        self.plain = plain
        self.symbols = symbols
        self.max_phonemes = max_phonemes
        self.pronunciations = [mark for mark in reversed(marks) if isinstance(mark, markup.Pronunciation)]


class Phonemizer:
    """Planner of text in one language. Thread-safe."""

    def __init__(self, language: str, *, name_emoji: bool = False) -> None:
        """Take a tag or alias of `LANGUAGES`. Emoji are silent, or spoken by name if `name_emoji`.

        Raises UnsupportedLanguageError, MissingExtraError, or PhonemizerUnavailableError if the language's parts
        cannot run on this machine.
        """
        self.language = find_language(language)
        self._name_emoji = name_emoji
        self._english = self.language.tag.startswith("en")
        self._pronouncer = make_pronouncer(self.language)

    def warm(self) -> None:
        """Load the parts that a first request would load."""
        for _ in self.segments("Warm up: zyzzyvaq."):
            pass

    def segments(
        self, text: str, *, symbols: frozenset[str] | None = None, max_phonemes: int = 510
    ) -> Iterator[SpeechSegment]:
        """Return the segments of a text, lazily: the first sentence does not wait for the rest.

        `symbols` are the phoneme characters of the model (default: Kokoro's). Utterances have no others.
        `max_phonemes` (at least 1) bounds `Utterance.phonemes`: longer sentences are cut at clauses, then words,
        then inside a word. Every letter and digit of the text lies in some word of some utterance.

        Raises MarkupError and NothingToSpeakError at once, before the first segment.
        """
        if max_phonemes < 1:
            raise ValueError(f"max_phonemes must be at least 1, not {max_phonemes}")
        request, marks = self._request(text, symbols, max_phonemes)
        return arrange(request.plain, marks, lambda first, last: self._speak(request, first, last))

    def _request(
        self, text: str, symbols: frozenset[str] | None, max_phonemes: int
    ) -> tuple[_Request, list[markup.Mark]]:
        marks = markup.parse(text, english=self._english)
        plain = markup.hide(text, marks)
        speaks = any(character.isalnum() for character in plain) or _SYMBOLS.intersection(plain)
        if not speaks and not (self._name_emoji and markup.has_emoji(plain)):
            raise NothingToSpeakError(NOTHING)
        known = KOKORO_SYMBOLS if symbols is None else symbols
        return _Request(text, plain, marks, symbols=known, max_phonemes=max_phonemes), marks

    def tokens(self, text: str, *, symbols: frozenset[str] | None = None) -> Iterator[list[Token]]:
        """Return the tokens of each sentence of a text, lazily. Raises as `segments` does."""
        request, marks = self._request(text, symbols, max_phonemes=1)

        def read() -> Iterator[list[Token]]:
            for first, last, _ in regions(request.plain, marks):
                for start, end in paragraphs(request.plain, first, last):
                    for _, _, pieces in self._sentences(request, start, end):
                        yield list(make_tokens(text, pieces, request.symbols))

        return read()

    def _speak(self, request: _Request, start: int, end: int) -> Iterator[Utterance | None]:
        """Yield the utterances of one paragraph, and None before those of each sentence."""
        for first, last, pieces in self._sentences(request, start, end):
            yield None
            yield from make_utterances(
                request.text, first, last, pieces, symbols=request.symbols, max_phonemes=request.max_phonemes
            )

    def _sentences(self, request: _Request, start: int, end: int) -> Iterator[tuple[int, int, list[Piece]]]:
        """Yield the bounds of each sentence of one paragraph, and its pieces with their phonemes."""
        position = start
        for first, last in sentences(request.plain, start, end, self.language.tag):
            position = max(position, first)  # a pronunciation may reach over a cut
            pieces: list[Piece] = []
            while request.pronunciations and request.pronunciations[-1].start < last:
                mark = request.pronunciations.pop()
                pieces += self._normalize(request.text, position, mark.start)
                word = request.text[mark.word_start : mark.word_end]
                pieces.append(
                    Piece(
                        PieceKind.PHONEMES,
                        word,
                        mark.word_start,
                        mark.word_end,
                        phonemes=mark.phonemes,
                        source="markup",
                    )
                )
                position = mark.end
                # `normalize` drops a mark at the start of its text.
                if after := _MARKS_AFTER.match(request.text, position, last):
                    for i in range(after.start(1), after.end(1)):
                        append_mark(pieces, request.text[i], i, i + 1)
            pieces += self._normalize(request.text, position, last)
            position = max(position, last)
            self._pronouncer.pronounce(pieces)
            yield first, position, pieces

    def _normalize(self, text: str, start: int, end: int) -> list[Piece]:
        if start >= end:
            return []
        part = text[start:end]
        visible = markup.visible_text(part, language=self.language.tag, name_emoji=self._name_emoji)
        if visible is None:
            return self._pronouncer.normalize(part, start)
        pieces = self._pronouncer.normalize(visible.text, 0)
        for piece in pieces:
            first, last = visible.original_span(piece.start, piece.end)
            piece.start, piece.end = start + first, start + last
        return pieces


_MARKS_AFTER: Final = re.compile(r"\s*+([.,;:!?…—]++)")
_SYMBOLS: Final = frozenset("&@%+=×÷±≈≠≤≥√∞°€£$¥₹")

_lock = threading.Lock()
_made: dict[tuple[str, bool], Phonemizer] = {}


def get_phonemizer(language: str, *, name_emoji: bool = False) -> Phonemizer:
    """Return the phonemizer of a language, made once. Raises as `Phonemizer` does. Thread-safe."""
    key = normalize_language(language), name_emoji
    with _lock:
        if key not in _made:
            _made[key] = Phonemizer(key[0], name_emoji=name_emoji)
        return _made[key]


def made_phonemizer(language: str, *, name_emoji: bool = False) -> Phonemizer | None:
    """Return the phonemizer of a language if it exists, else None. Loads nothing. Raises UnsupportedLanguageError."""
    return _made.get((normalize_language(language), name_emoji))
