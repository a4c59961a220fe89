"""Splitter of text into paragraphs, sentences (by the library sentencex), clauses and words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import sentencex  # type: ignore[import-untyped]

from app.text.english.full_stops import continues_sentence
from app.text.unicode import canonical

Span = tuple[int, int]

LONGEST_SENTENCE: Final = 600
"""Longest sentence in characters. A longer one is cut at a clause, so that its cost is bounded."""

_NEARBY: Final = 40  # characters on either side of a full stop that decide whether it ends a sentence
_WINDOW: Final = 4000
"""Characters that are cut into sentences at once, because sentencex takes more than linear time."""

_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n\s*")
_LIST_ITEM: Final = re.compile(r"\n(?=[^\S\n]*(?:[-*•‣▪–]|\d{1,3}[.)]|#{1,6})[^\S\n]+\S)")
# Full stops that sentencex does not know: without a space after them, then with one.
_WIDE_STOP: Final = re.compile(r"(?:[。！？｡።፧፨။។៕]|፡፡)++[”’」』）\"']*+|(?<![।॥۔؟։།༎᱾᱿꯫])[।॥۔؟։།༎᱾᱿꯫]++(?=\s)")
_GREEK_QUESTION: Final = re.compile(r"[;\u037e](?=\s)")
_ONLY_NUMBER: Final = re.compile(r"\s*[(\[]?(?:\d{1,3}|[A-Za-z])[.)]\s*")
_CLAUSE: Final = re.compile(r"[,;:—–…，、；：)](?=[\s\"'”’]|[^\x00-\x7f])|[，、；：](?=.)|\s[-–—]+(?=\s)")
_SPACE: Final = re.compile(r"\s+")


def paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans between blank lines in [start, end)."""
    position = start
    for match in _PARAGRAPH.finditer(text, start, end):
        yield position, match.start()
        position = match.end()
    yield position, end


def sentences(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    """Yield the spans of the sentences in [start, end), which they cover. Long ones are cut at clauses.

    Lazy, and linear in time: the first sentence does not wait for the rest.
    """
    while start < end:
        window = min(start + _WINDOW, end)
        spans = _sentences(text, start, window, language)
        if window < end and len(spans) > 1:
            spans.pop()  # may go on beyond the window
        yield from spans
        start = spans[-1][1]


def _sentences(text: str, start: int, end: int, language: str) -> list[Span]:
    spans: list[Span] = []
    position = start
    for match in _LIST_ITEM.finditer(text, start, end):
        spans += _plain_sentences(text, position, match.end(), language)
        position = match.end()
    spans += _plain_sentences(text, position, end, language)
    return [piece for span in spans for piece in shorten(text, *span)]


def _plain_sentences(text: str, start: int, end: int, language: str) -> list[Span]:
    if start >= end:
        return []
    view = _ascii_view(canonical(text[start:end]))
    language = language.split("-", maxsplit=1)[0]
    cuts = {start + match.end() for match in _WIDE_STOP.finditer(text[start:end])}
    if language == "el":
        cuts |= {start + match.end() for match in _GREEK_QUESTION.finditer(text[start:end])}
    position = start
    for sentence in sentencex.segment(language, view):
        position = min(position + len(sentence), end)
        before = text[max(start, position - _NEARBY) : position]
        after = text[position : min(position + _NEARBY, end)]
        if language != "en" or not continues_sentence(before, after):
            cuts.add(position)
    cuts.add(end)
    spans: list[Span] = []
    position = start
    for cut in sorted(cuts):
        # Stray quotes, and the number before a list item, stay with their text.
        stray = bool(spans) and not (_speaks(text[position:cut]) and _speaks(text[slice(*spans[-1])]))
        if spans and (stray or _ONLY_NUMBER.fullmatch(text, *spans[-1])):
            spans[-1] = (spans[-1][0], cut)
        elif cut > position:
            spans.append((position, cut))
        position = cut
    return spans


def _speaks(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _ascii_view(text: str) -> str:
    """Return ASCII text of equal length: sentencex 1.0 slices bytes and can panic on other characters."""
    if text.isascii():
        return text
    return "".join(character if character < "\x80" else _stand_in(character) for character in text)


@lru_cache(maxsize=8192)
def _stand_in(character: str) -> str:
    if character.isupper():
        return "A"
    if character.isdecimal():
        return "0"
    return "a" if character.isalnum() else "-"


def shorten(text: str, start: int, end: int, limit: int = LONGEST_SENTENCE) -> Iterator[Span]:
    """Yield [start, end) in pieces of at most `limit` characters, of about equal length."""
    while end - start > limit:
        count = -(-(end - start) // limit)
        cut = best_cut(text, start, start + limit, (end - start) // count)
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def best_cut(text: str, start: int, stop: int, target: int) -> int:
    """Return the best cut of `text` after `start` and up to `stop`: at a clause, else at a space, else at `stop`.

    Among several, the one nearest to `target` characters. A cut never opens a bracket.
    """
    window = text[start:stop]
    opened = window.rfind("[")
    if opened > 0 and "]" not in window[opened:]:
        window = window[:opened]
    earliest = min(target, len(window)) // 3
    for pattern in (_CLAUSE, _SPACE):
        ends = [match.end() for match in pattern.finditer(window) if match.end() > earliest]
        if ends:
            cut = start + min(ends, key=lambda position: abs(position - target))
            while cut < stop and text[cut].isspace():
                cut += 1
            return cut
    return start + len(window) if len(window) > earliest else stop
