"""Splitter of text into paragraphs, sentences (by the library sentencex), clauses and words.

sentencex takes some English full stops for the end of a sentence that are none; `continues_sentence` finds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import sentencex  # type: ignore[import-untyped]

from app.text.english.tables import BIBLE_BOOKS, SETS
from app.text.pieces import canonical
from app.text.written.abbreviations import continues_sentence as abbreviated

Span = tuple[int, int]

MAX_SENTENCE_CHARACTERS: Final = 600
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
    # ASCII text of equal length: sentencex 1.0 slices bytes and can panic on other characters.
    view = "".join(each if each < "\x80" else _stand_in(each) for each in canonical(text[start:end]))
    language = language.split("-", maxsplit=1)[0]
    cuts = {start + match.end() for match in _WIDE_STOP.finditer(text[start:end])}
    if language == "el":
        cuts |= {start + match.end() for match in _GREEK_QUESTION.finditer(text[start:end])}
    position = start
    for sentence in sentencex.segment(language, view):
        position = min(position + len(sentence), end)
        before = text[max(start, position - _NEARBY) : position]
        after = text[position : min(position + _NEARBY, end)]
        goes_on = continues_sentence(before, after) if language == "en" else abbreviated(language, before, after)
        if not goes_on:
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


@lru_cache(maxsize=8192)
def _stand_in(character: str) -> str:
    if character.isupper():
        return "A"
    if character.isdecimal():
        return "0"
    return "a" if character.isalnum() else "-"


def shorten(text: str, start: int, end: int, limit: int = MAX_SENTENCE_CHARACTERS) -> Iterator[Span]:
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


_NUMBERED: Final = SETS["stop_numbered"]
_INSIDE: Final = SETS["stop_inside"]
_ANY: Final = SETS["stop_any"]
_STREETS: Final = SETS["stop_streets"]
_SMALL_ONLY: Final = SETS["stop_small_only"]
_WORDS_TOO: Final = SETS["stop_words_too"]
ABBREVIATIONS: Final = _NUMBERED | _INSIDE | _ANY | _STREETS

# "Dr." after the name of a street, "Elm Dr."; elsewhere it is a title.
_DRIVE: Final = re.compile(r"\b(?!(?:Ask|See|Call|Meet|Visit|Dear|Hi|Hello|And|But|The|When|If)\s)[A-Z][\w']*\s+Dr\.$")
# "6 p.m. Friday", "1 p.m. EST".
_MERIDIEM: Final = re.compile(r"\b[ap]\.m\.$", re.IGNORECASE)
_DAY_OR_ZONE: Final = re.compile(
    r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
    r"|(?:January|February|March|April|June|July|August|September|October|November|December)\s\d"
    r"|(?:[ECMP][SD]?T|GMT|UTC|BST|CES?T|IST|JST|A[EW][SD]T|Eastern|Pacific|Central|Mountain)\b)"
)
_FACTORIAL: Final = re.compile(r"(?<!\w)\d{1,3}!$")
_INCH: Final = re.compile(r"\d[ -]in\.$")
_VERSE: Final = re.compile(r"\d{1,3}:\d")
_LAST: Final = re.compile(r"(?<![^\W\d_])([^\W\d_]{1,8})\.$")
_NUMBER: Final = re.compile(r"[#(+$£€-]{0,2}\d|(?:[IVXLC]{2,}|[VX])\b")
_PLACE: Final = re.compile(r"(?:Apt|Ste|Suite|Unit|Floor|Rm|Bldg)\b")


def continues_sentence(before: str, after: str) -> bool:
    """Return whether an English sentence goes on in `after`. `before` ends with a full stop and white space."""
    stem, following = before.rstrip(), after.lstrip()
    if not following or _FACTORIAL.search(stem[-5:]):
        return bool(following) and following[0] in "=+×/*−-"
    if not stem.endswith("."):
        return False
    if len(stem) == len(before) and len(following) == len(after):  # nothing between: ".NET", "ASP.NET", "Mon.-Fri."
        inside = after[0].isalnum() and (not stem[-2:-1].strip(" (") or (stem[-2].isupper() and after[:2].isupper()))
        return inside or after[0] in "-–/"
    if _MERIDIEM.search(stem[-5:]):
        return _DAY_OR_ZONE.match(following) is not None
    last = _LAST.search(stem[-12:])
    if last is None:
        return False
    name = last.group(1).lower()
    if name in _WORDS_TOO and not last.group(1)[0].isupper():
        return False
    if following[0].islower() or following[0] == "&":
        return name in _INSIDE or (name == "in" and _INCH.search(stem[-6:]) is not None)
    if name in _SMALL_ONLY and last.group(1)[0].isupper():
        return False
    if _NUMBER.match(following):
        return name in _NUMBERED or (name in BIBLE_BOOKS and _VERSE.match(following) is not None)
    if name == "ft" and last.group(1) == "Ft" and not stem[-5:-3].strip()[-1:].isdecimal():
        return following[0].isupper()
    if name == "dr" and following[0].isupper() and not _DRIVE.search(stem[-24:]):
        return True
    return name in _ANY or (name in _STREETS and _PLACE.match(following) is not None)
