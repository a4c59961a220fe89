"""Planners of speech: a text becomes utterances and pauses.

`Phonemizer` plans for models that read phonemes, `TextPlanner` for models that read text. Both share the order of
paragraphs, sentences and pauses.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from app.errors import InvalidLexiconError, NothingToSpeakError
from app.text import characters, marks, markup, say_as
from app.text.languages import find_language, normalize_language
from app.text.lexicon import Lexicon, find_readings
from app.text.pieces import KOKORO_SYMBOLS, Piece, PieceKind, append_mark, make_utterances, restress, word
from app.text.pronouncers import make_pronouncer
from app.text.sentence_splitter import MAX_SENTENCE_CHARACTERS, paragraphs, sentences, shorten
from app.text.tokens import make_tokens
from app.text.types import Pause, PhonemizedSentence, Reading, Script, SpeechSegment, Token

_NOTHING: Final = "the text has nothing to speak: it needs at least one letter or digit"
# A pause of no length is reported after so many sentences without an utterance.
_SILENT_SENTENCES: Final = 8
# Characters that a lexicon may say in place of the words of one text.
_MAX_SPOKEN_CHARACTERS: Final = 100_000

_MARKS_AFTER: Final = re.compile(r"\s*+([.,;:!?…—]++)")
_SPOKEN_SYMBOLS: Final = frozenset("&@%+=×÷±≈≠≤≥√∞°€£$¥₹")


class _MarkedText:
    """A text that is being planned, with its marks or those of its script. Raises MarkupError when made.

    `text` is the normal text, which `steps` map to the one that was given. `plain` is it as `marks.hide` returns it.
    `readings` are those that are left, the next one last.
    """

    def __init__(self, text: str, script: Script | None, language: str) -> None:
        text, self.steps = characters.normalize(text, language)
        self.text = text
        if script is not None and self.steps:
            script = _moved(script, self.steps)
        english = language.startswith("en")
        self.marks = marks.parse(text, english=english) if script is None else list(script.readings)
        self.has_lexicons = False
        self.spans = () if script is None else script.spans
        self.plain = marks.hide(text, self.marks)
        self.readings = [mark for mark in reversed(self.marks) if isinstance(mark, Reading)]

    def look_up(self, lexicons: Sequence[Lexicon], language: str) -> Iterator[None]:
        """Add the readings of lexicons; pause where others may have a turn."""
        found: list[Reading] = []
        said = 0
        for reading in find_readings(self.text, lexicons, language, [(mark.start, mark.end) for mark in self.marks]):
            if reading is None:
                yield
                continue
            found.append(reading)
            said += len(reading.alias)
            if said > _MAX_SPOKEN_CHARACTERS:
                raise InvalidLexiconError(
                    f"the lexicon says more than {_MAX_SPOKEN_CHARACTERS} characters in place of the text's words"
                )
        self.has_lexicons = True
        self.marks = sorted([*self.marks, *found], key=lambda mark: mark.start)
        self.plain = marks.hide(self.text, self.marks)
        self.readings = [mark for mark in reversed(self.marks) if isinstance(mark, Reading)]

    def cut(self, spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the spans of sentences, cut where lexicons say so much that to read it would take long."""
        for first, last in spans:
            said, cuts = 0, []
            for mark in reversed(self.readings):
                if mark.start >= last:
                    break
                said += len(mark.alias)
                if said > MAX_SENTENCE_CHARACTERS:
                    cuts.append(mark.end)
                    said = 0
            begin = first
            for end in (*cuts, last):
                if begin < end:
                    yield begin, end
                    begin = end

    def regions(self) -> Iterator[tuple[int, int, float]]:
        """Yield the spans between explicit pauses, each with the seconds of the pause after it."""
        position = 0
        for mark in self.marks:
            if isinstance(mark, marks.PauseMark):
                yield position, mark.start, mark.seconds
                position = mark.end
        yield position, len(self.plain), 0.0

    def take_readings(self, end: int) -> Iterator[Reading]:
        """Remove and yield the readings that are left before `end`."""
        while self.readings and self.readings[-1].start < end:
            yield self.readings.pop()

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, str | None]]:
        """Yield the parts of [start, end) in one language each; None is that of the text."""
        for span in self.spans:
            if span.language is None or span.end <= start or span.start >= end:
                continue
            if start < span.start:
                yield start, span.start, None
            start, stop = max(start, span.start), min(end, span.end)
            yield start, stop, span.language
            start = stop
        if start < end:
            yield start, end, None


def _moved(script: Script, steps: characters.Steps) -> Script:
    """Return a script with its readings and spans at their places in the normal text."""

    def moved(each: Any, *names: str) -> Any:
        places = {name: getattr(each, name) for name in names}
        for step in steps:
            places = {name: step.position(place) for name, place in places.items()}
        return replace(each, **places)

    readings = [moved(each, "start", "end", "word_start", "word_end") for each in script.readings]
    seen = tuple(each for each in readings if each.word_start < each.word_end)
    return replace(script, readings=seen, spans=tuple(moved(each, "start", "end") for each in script.spans))


def _arrange(
    marked: _MarkedText,
    lexicons: Sequence[Lexicon],
    language: str,
    speaks: Callable[[str], bool],
    speak: Callable[[int, int], Iterator[PhonemizedSentence | None]],
) -> Iterator[SpeechSegment]:
    """Yield the utterances of a text, and the pauses between them.

    Args:
        marked: The text.
        lexicons: They give readings to its words.
        language: Its tag.
        speaks: Whether a text without marks has something to speak.
        speak: Makes the utterances of the paragraph [first, last), and None before those of each sentence.

    Raises:
        NothingToSpeakError: At once, or at the end if nothing was spoken.
    """
    if lexicons:
        yield from (Pause(0.0) for _ in marked.look_up(lexicons, language))
    if not speaks(marked.plain):
        raise NothingToSpeakError(_NOTHING)
    spoken = False
    silent = 0
    gap: float | None = 0.0  # silence that is due before the next utterance, as in `Pause`
    for start, end, seconds in marked.regions():
        for first, last in paragraphs(marked.plain, start, end):
            before = gap
            for utterance in speak(first, last):
                if utterance is None:
                    silent += 1
                    if silent % _SILENT_SENTENCES == 0:
                        yield Pause(0.0)
                    continue
                silent = 0
                if before != 0.0:
                    yield Pause(before)
                spoken, before, gap = True, 0.0, None
                yield utterance
        gap = 0.0
        if seconds:
            yield Pause(seconds)
    if not spoken:
        raise NothingToSpeakError(_NOTHING)


def _check_limit(max_phonemes: int) -> None:
    if max_phonemes < 1:
        raise ValueError(f"max_phonemes must be at least 1, not {max_phonemes}")


class Phonemizer:
    """Planner of text in one language, for models that read phonemes. Thread-safe."""

    def __init__(self, language: str, *, name_emoji: bool = False) -> None:
        """Take a tag or alias of `LANGUAGES`. Emoji are silent, or spoken by name if `name_emoji`.

        Raises UnsupportedLanguageError, or UnavailableError if the language's parts
        cannot run on this machine.
        """
        self.language = find_language(language)
        self._name_emoji = name_emoji
        self._pronouncer = make_pronouncer(self.language)

    def warm(self) -> None:
        """Load the parts that a first request would load."""
        for _ in self.segments("Warm up: zyzzyvaq."):
            pass

    def segments(
        self,
        text: str,
        *,
        symbols: frozenset[str] = KOKORO_SYMBOLS,
        max_phonemes: int = 510,
        script: Script | None = None,
        lexicons: Sequence[Lexicon] = (),
    ) -> Iterator[SpeechSegment]:
        """Return the segments of a text, lazily: the first sentence does not wait for the rest.

        Pauses of no length are places where others may have a turn.

        `symbols` are the phoneme characters of the model. Utterances have no others. `max_phonemes` (at least 1)
        bounds `Utterance.phonemes`: longer sentences are cut at clauses, then words, then inside a word. Every letter
        and digit of the text lies in some word of some utterance, but for the numbers of notes.

        Raises MarkupError at once, and NothingToSpeakError before the first segment.
        """
        _check_limit(max_phonemes)
        marked = _MarkedText(text, script, self.language.tag)

        def speak(start: int, end: int) -> Iterator[PhonemizedSentence | None]:
            for first, last, pieces in self._sentences(marked, start, end):
                yield None
                yield from make_utterances(text, first, last, pieces, symbols=symbols, max_phonemes=max_phonemes)

        return _arrange(marked, lexicons, self.language.tag, self._speaks, speak)

    def tokens(
        self,
        text: str,
        *,
        symbols: frozenset[str] = KOKORO_SYMBOLS,
        script: Script | None = None,
        lexicons: Sequence[Lexicon] = (),
    ) -> Iterator[list[Token]]:
        """Return the tokens of each sentence of a text, lazily; none where others may have a turn.

        Raises as `segments` does.
        """
        marked = _MarkedText(text, script, self.language.tag)

        def read() -> Iterator[list[Token]]:
            yield from ([] for _ in marked.look_up(lexicons, self.language.tag))
            if not self._speaks(marked.plain):
                raise NothingToSpeakError(_NOTHING)
            for first, last, _ in marked.regions():
                for start, end in paragraphs(marked.plain, first, last):
                    for _, _, pieces in self._sentences(marked, start, end):
                        yield list(make_tokens(text, pieces, symbols))

        return read()

    def _speaks(self, plain: str) -> bool:
        """Return whether a text without its marks has something to speak."""
        if any(map(str.isalnum, plain)) or _SPOKEN_SYMBOLS.intersection(plain):
            return True
        return self._name_emoji and markup.has_emoji(plain)

    def _sentences(self, marked: _MarkedText, start: int, end: int) -> Iterator[tuple[int, int, list[Piece]]]:
        """Yield the bounds of each sentence of one paragraph, and its pieces with their phonemes."""
        text = marked.text
        position = start
        spans = sentences(marked.plain, start, end, self.language.tag)
        for first, last in marked.cut(spans) if marked.has_lexicons else spans:
            position = max(position, first)  # a reading may reach over a cut
            pieces: list[Piece] = []
            for mark in marked.take_readings(last):
                pieces += self._normalize_parts(marked, position, mark.start)
                pieces += self._read(marked, mark)
                position = mark.end
                # `normalize` drops a mark at the start of its text.
                if after := _MARKS_AFTER.match(text, position, last):
                    for i in range(after.start(1), after.end(1)):
                        append_mark(pieces, text[i], i, i + 1)
            pieces += self._normalize_parts(marked, position, last)
            position = max(position, last)
            self._pronouncer.pronounce(pieces)
            for span in marked.spans:
                for piece in pieces if span.stress is not None else ():
                    if not piece.is_mark and span.start <= piece.start and piece.end <= span.end:
                        piece.phonemes = restress(piece.phonemes, span.stress)
            bounds = first, position
            if marked.steps:
                _place(pieces, marked.steps)
                bounds = characters.original_span(marked.steps, *bounds)
            yield *bounds, pieces

    def _normalize_parts(self, marked: _MarkedText, start: int, end: int) -> list[Piece]:
        """Return the pieces of [start, end). Those in another language have their phonemes."""
        pieces: list[Piece] = []
        for first, last, language in marked.parts(start, end):
            other = self._other(language)
            found = other._normalize(marked.text, first, last)
            if other is not self:
                _pronounce_by(other, found)
            pieces += found
        return pieces

    def _other(self, language: str | None) -> Phonemizer:
        """Return the phonemizer of a language, or this one if that language was not loaded."""
        made = None if language is None else made_phonemizer(language, name_emoji=self._name_emoji)
        return self if made is None else made

    def _read(self, marked: _MarkedText, mark: Reading) -> list[Piece]:
        """Return the pieces of a reading. They stand for the characters of its word."""
        written, start, end = marked.text[mark.word_start : mark.word_end], mark.word_start, mark.word_end
        if mark.phonemes:
            return [Piece(PieceKind.PHONEMES, written, start, end, phonemes=mark.phonemes, source=mark.source)]
        *_, (_, _, language) = marked.parts(mark.start, mark.end)
        other = self._other(language)
        tag = other.language.tag
        said = say_as.Said(mark.alias) if mark.say_as is None else say_as.read(written, *mark.say_as, tag)
        if said is not None and said.spelled:
            pieces = other._spell(said.text)
        else:
            pieces = other._pronouncer.normalize(
                written if said is None else characters.normalize(said.text, tag)[0], 0
            )
        if other is not self:
            _pronounce_by(other, pieces)
        for piece in pieces:
            piece.start, piece.end, piece.rule = start, end, mark.source
        return pieces

    def _spell(self, text: str) -> list[Piece]:
        """Return the names of all characters of a text."""
        english = self.language.tag.startswith("en")
        pieces: list[Piece] = []
        for character in text:
            if character.isalpha():
                said = character.upper() if english else character.lower()
                pieces.append(word(said, 0, 0, tag="LETTERS" if english and character.isascii() else None))
            else:
                named = say_as.name_of_sign(character, self.language.tag)
                pieces += self._pronouncer.normalize(named or character, 0)
        return pieces

    def _normalize(self, text: str, start: int, end: int) -> list[Piece]:
        if start >= end:
            return []
        part = text[start:end]
        visible = markup.visible_text(part, language=self.language.tag, name_emoji=self._name_emoji)
        if visible is None:
            return self._pronouncer.normalize(part, start)
        shown, steps = characters.normalize(visible.text, self.language.tag)  # of what references stand for
        pieces = self._pronouncer.normalize(shown, 0)
        for piece in pieces:
            first, last = visible.original_span(*characters.original_span(steps, piece.start, piece.end))
            piece.start, piece.end = start + first, start + last
        return pieces


def _pronounce_by(other: Phonemizer, pieces: list[Piece]) -> None:
    """Have another language's rules fill in the phonemes, and nobody after them."""
    other._pronouncer.pronounce(pieces)
    for piece in pieces:
        if piece.kind is PieceKind.WORD:
            piece.kind = PieceKind.PHONEMES


def _place(pieces: list[Piece], steps: characters.Steps) -> None:
    """Move the pieces of a sentence to their places in the original. Those of one character do not overlap others."""
    normal = place = (-1, -1)
    for piece in pieces:
        if normal != (normal := (piece.start, piece.end)):
            start, end = characters.original_span(steps, *normal)
            place = (start, end) if (start, end) == place else (max(start, place[1]), max(end, place[1]))
        piece.start, piece.end = place


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


class TextPlanner:
    """Planner of text in one language, given as a BCP-47 tag, for a model that pronounces text itself. Thread-safe.

    Of a reading by phonemes it keeps the word; of HTML it keeps the visible text. Emoji are left to the model, or named
    if `name_emoji`. Sentences without a letter or digit are left out.
    """

    def __init__(self, language: str, *, name_emoji: bool = False) -> None:
        self._language = language
        self._name_emoji = name_emoji

    def segments(
        self,
        text: str,
        *,
        symbols: frozenset[str],
        max_phonemes: int,
        script: Script | None = None,
        lexicons: Sequence[Lexicon] = (),
    ) -> Iterator[SpeechSegment]:
        """Return the segments of `text`, lazily. See `Planner.segments`; `symbols` are phonemes and are ignored."""
        _check_limit(max_phonemes)
        marked = _MarkedText(text, script, self._language)

        def speak(start: int, end: int) -> Iterator[PhonemizedSentence | None]:
            position = start
            for sentence in sentences(marked.plain, start, end, self._language):
                yield None
                for first, last in shorten(marked.plain, *sentence, max_phonemes):
                    begin = position = max(position, first)  # a reading may reach over a cut
                    parts = []
                    for mark in marked.take_readings(last):
                        written = marked.text[mark.word_start : mark.word_end]
                        parts += [marked.text[position : mark.start], say_as.words_of(written, mark, self._language)]
                        position = mark.end
                    parts.append(marked.text[position:last])
                    position = max(position, last)
                    span = characters.original_span(marked.steps, begin, position)
                    yield from self._utterances(text, *span, "".join(parts), max_phonemes)

        return _arrange(marked, lexicons, self._language, lambda plain: any(map(str.isalnum, plain)), speak)

    def _utterances(self, text: str, start: int, end: int, read: str, limit: int) -> Iterator[PhonemizedSentence]:
        """Yield the utterances of `read`, which is [start, end) of `text` without markup."""
        visible = markup.visible_text(read, language=self._language, name_emoji=self._name_emoji)
        read, _ = characters.normalize(read if visible is None else visible.text, self._language)
        read = " ".join(read.split())
        start += len(text[start:end]) - len(text[start:end].lstrip())
        original = text[start:end].strip()
        # Longer than the limit only if a cut fell into a reading, whose word is read whole.
        for cut in shorten(read, 0, len(read), limit):
            if any(map(str.isalnum, read[slice(*cut)])):
                said = read[slice(*cut)].strip()
                yield PhonemizedSentence(original, start, start + len(original), said, ())
