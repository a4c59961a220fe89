"""Pronounced pieces to utterances: joined into phoneme strings, cut where they are too long, mapped to the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.text.pieces import Kind, Piece
from app.text.symbols import restrict
from app.text.types import Utterance, WordSpan
from app.text.word_sets import word_set

_STRENGTH: Final = {".": 3, "!": 3, "?": 3, "…": 3, ";": 3, ":": 3, "—": 2, ",": 2}
_CONJUNCTIONS: Final = word_set("and but or because which who when while if so although where than")


@dataclass(slots=True)
class Unit:
    """A word of the original text with all its phonemes, or a punctuation mark."""

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
    units = [part for unit in _units(pieces, symbols) for part in _divide(unit, max_phonemes)]
    if not any(not unit.is_mark for unit in units):
        return
    start, end = _strip(text, start, end)
    groups = list(_groups(units, max_phonemes))
    starts = [start, *(_first_word(group).start for group in groups[1:])]
    for i, group in enumerate(groups):
        stop = starts[i + 1] if i + 1 < len(groups) else max(end, group[-1].end)
        yield _utterance(text, starts[i], stop, group)


def _units(pieces: Sequence[Piece], symbols: frozenset[str]) -> Iterator[Unit]:
    current: Unit | None = None
    for piece in pieces:
        phonemes = restrict(piece.phonemes, symbols)
        if not phonemes.strip():
            continue
        if piece.kind is Kind.PUNCTUATION:
            if current is not None:
                yield current
            current = None
            yield Unit(piece.start, piece.end, phonemes, True, piece.text)
        elif current is not None and (piece.start, piece.end) == (current.start, current.end):
            current.phonemes += " " + phonemes
        else:
            if current is not None:
                yield current
            current = Unit(piece.start, piece.end, phonemes, False, piece.text, piece.glued and current is not None)
    if current is not None:
        yield current


def _divide(unit: Unit, limit: int) -> Iterator[Unit]:
    """Cut a word that alone is too long; its characters are shared out in proportion."""
    if len(unit.phonemes) <= limit:
        yield unit
        return
    parts: list[str] = []
    for spoken in unit.phonemes.split(" "):
        if parts and len(parts[-1]) + 1 + len(spoken) <= limit:
            parts[-1] += " " + spoken
        else:
            parts += [spoken[i : i + limit] for i in range(0, len(spoken), limit)]
    length, count = unit.end - unit.start, len(parts)
    for i, part in enumerate(parts):
        yield Unit(unit.start + length * i // count, unit.start + length * (i + 1) // count, part, False, unit.text)


def _groups(units: list[Unit], limit: int) -> Iterator[list[Unit]]:
    """Cut a sentence into runs of at most `limit` phonemes, after marks rather than between words."""
    first = 0
    while first < len(units):
        if units[first].is_mark:  # a pause at the start of an utterance says nothing
            first += 1
            continue
        length, last = 0, first
        while last < len(units):
            unit = units[last]
            added = len(unit.phonemes) + (0 if unit.is_mark or unit.glued or last == first else 1)
            if length + added > limit:
                break
            length += added
            last += 1
        if last < len(units) and not all(unit.is_mark for unit in units[last:]):
            last = _best_boundary(units, first, last)
        yield units[first:last]
        first = last


def _best_boundary(units: list[Unit], first: int, last: int) -> int:
    total = sum(len(unit.phonemes) + 1 for unit in units[first:last])
    best, best_strength, length = last, 0, 0
    for i in range(first + 1, last + 1):
        length += len(units[i - 1].phonemes) + 1
        if length * 3 < total:
            continue
        if units[i - 1].is_mark:
            strength = _STRENGTH.get(units[i - 1].text, 1)
        else:
            strength = 1 if i < len(units) and units[i].text.lower() in _CONJUNCTIONS else 0
        if strength >= best_strength and strength > 0:
            best, best_strength = i, strength
    return best


def _utterance(text: str, start: int, end: int, group: list[Unit]) -> Utterance:
    start, end = _strip(text, start, end)
    phonemes = ""
    words: list[WordSpan] = []
    for unit in group:
        if unit.is_mark:
            phonemes += unit.phonemes
            continue
        if phonemes and not unit.glued:
            phonemes += " "
        begin = len(phonemes)
        phonemes += unit.phonemes
        words.append(WordSpan(text[unit.start : unit.end], unit.start, unit.end, begin, len(phonemes)))
    return Utterance(text[start:end], start, end, phonemes, tuple(words))


def _first_word(group: list[Unit]) -> Unit:
    return next(unit for unit in group if not unit.is_mark)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
