"""Utterances from pronounced pieces: phoneme strings of bounded length, with the span of each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.text.pieces import Piece, PieceKind
from app.text.symbols import restrict
from app.text.types import Utterance, WordSpan
from app.text.word_sets import word_set

_STRENGTH: Final = {".": 3, "!": 3, "?": 3, "…": 3, ";": 3, ":": 3, "—": 2, ",": 2}
_CONJUNCTIONS: Final = word_set("and but or because which who when while if so although where than")


@dataclass(slots=True)
class PronouncedWord:
    """One word of the original text with all its phonemes, or one punctuation mark."""

    start: int
    end: int
    phonemes: str
    is_mark: bool
    text: str
    glued: bool = False


def make_utterances(
    text: str, start: int, end: int, pieces: Sequence[Piece], *, symbols: frozenset[str], max_phonemes: int
) -> Iterator[Utterance]:
    """Yield the utterances of one sentence, which lies at [start, end) of `text`."""
    words = [part for word in _pronounced_words(pieces, symbols) for part in _divide(word, max_phonemes)]
    if not any(not word.is_mark for word in words):
        return
    start, end = _strip(text, start, end)
    groups = list(_groups(words, max_phonemes))
    starts = [start, *(_first_word(group).start for group in groups[1:])]
    for i, group in enumerate(groups):
        stop = starts[i + 1] if i + 1 < len(groups) else max(end, group[-1].end)
        yield _utterance(text, starts[i], stop, group)


def _pronounced_words(pieces: Sequence[Piece], symbols: frozenset[str]) -> Iterator[PronouncedWord]:
    current: PronouncedWord | None = None
    for piece in pieces:
        phonemes = restrict(piece.phonemes, symbols)
        if not phonemes.strip():
            continue
        if piece.kind is PieceKind.PUNCTUATION:
            if current is not None:
                yield current
            current = None
            yield PronouncedWord(piece.start, piece.end, phonemes, True, piece.text)
        elif current is not None and (piece.start, piece.end) == (current.start, current.end):
            current.phonemes += " " + phonemes
        else:
            if current is not None:
                yield current
            current = PronouncedWord(
                piece.start, piece.end, phonemes, False, piece.text, piece.glued and current is not None
            )
    if current is not None:
        yield current


def _divide(word: PronouncedWord, limit: int) -> Iterator[PronouncedWord]:
    """Cut a word that is longer than `limit`. Each part gets its share of the characters."""
    if len(word.phonemes) <= limit:
        yield word
        return
    parts: list[str] = []
    for spoken in word.phonemes.split(" "):
        if parts and len(parts[-1]) + 1 + len(spoken) <= limit:
            parts[-1] += " " + spoken
        else:
            parts += [spoken[i : i + limit] for i in range(0, len(spoken), limit)]
    length, count = word.end - word.start, len(parts)
    for i, part in enumerate(parts):
        yield PronouncedWord(
            word.start + length * i // count, word.start + length * (i + 1) // count, part, False, word.text
        )


def _groups(words: list[PronouncedWord], limit: int) -> Iterator[list[PronouncedWord]]:
    """Cut a sentence into runs of at most `limit` phonemes, if possible after marks."""
    first = 0
    while first < len(words):
        if words[first].is_mark:  # an utterance does not begin with a mark
            first += 1
            continue
        length, last = 0, first
        while last < len(words):
            word = words[last]
            added = len(word.phonemes) + (0 if word.is_mark or word.glued or last == first else 1)
            if length + added > limit:
                break
            length += added
            last += 1
        if last < len(words) and not all(word.is_mark for word in words[last:]):
            last = _best_boundary(words, first, last)
        yield words[first:last]
        first = last


def _best_boundary(words: list[PronouncedWord], first: int, last: int) -> int:
    total = sum(len(word.phonemes) + 1 for word in words[first:last])
    best, best_strength, length = last, 0, 0
    for i in range(first + 1, last + 1):
        length += len(words[i - 1].phonemes) + 1
        if length * 3 < total:
            continue
        if words[i - 1].is_mark:
            strength = _STRENGTH.get(words[i - 1].text, 1)
        else:
            strength = 1 if i < len(words) and words[i].text.lower() in _CONJUNCTIONS else 0
        if strength >= best_strength and strength > 0:
            best, best_strength = i, strength
    return best


def _utterance(text: str, start: int, end: int, group: list[PronouncedWord]) -> Utterance:
    start, end = _strip(text, start, end)
    phonemes = ""
    words: list[WordSpan] = []
    for word in group:
        if word.is_mark:
            phonemes += word.phonemes
            continue
        if phonemes and not word.glued:
            phonemes += " "
        begin = len(phonemes)
        phonemes += word.phonemes
        words.append(WordSpan(text[word.start : word.end], word.start, word.end, begin, len(phonemes)))
    return Utterance(text[start:end], start, end, phonemes, tuple(words))


def _first_word(group: list[PronouncedWord]) -> PronouncedWord:
    return next(word for word in group if not word.is_mark)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
