"""Subtitles of speech, as SubRip (.srt) or WebVTT (www.w3.org/TR/webvtt1).

Cues follow the words: one sentence or a part of it, at most two lines of 42 characters and seven seconds, as
broadcasters' style guides have it.
"""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Final, Literal, Protocol, get_args

from app.errors import MarkupError
from app.text import marks
from app.text.types import Reading

SubtitleFormat = Literal["srt", "vtt"]
SUBTITLE_FORMATS: Final[tuple[SubtitleFormat, ...]] = get_args(SubtitleFormat)
MEDIA_TYPES: Final[dict[SubtitleFormat, str]] = {"srt": "application/x-subrip", "vtt": "text/vtt"}

LINE: Final = 42
LINES: Final = 2
MAX_CUE_SECONDS: Final = 7.0
# Shorter cues cannot be read: they stay this long if nothing else is shown.
MIN_CUE_SECONDS: Final = 0.8

_CLAUSE_END: Final = re.compile(r"[,;:、，；：—–]\W*$")
_BLANK: Final = re.compile(r"\s{2,}|\n")


class TimedWord(Protocol):
    """Word with the times of its speech (seconds), and its place in the text."""

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def char_start(self) -> int: ...


class TimedText(Protocol):
    """Piece of speech: its sentence, which begins at character `char_start`, and the words that it finishes."""

    @property
    def text(self) -> str: ...

    @property
    def char_start(self) -> int: ...

    @property
    def start(self) -> float: ...

    @property
    def duration(self) -> float: ...

    @property
    def words(self) -> Sequence[TimedWord]: ...


@dataclass(frozen=True, slots=True)
class Cue:
    """Text that is shown from `start` to `end`, in seconds."""

    start: float
    end: float
    text: str

    def later(self, seconds: float) -> Cue:
        """Return the cue so many seconds later."""
        return Cue(self.start + seconds, self.end + seconds, self.text)


def cues(pieces: Iterable[TimedText]) -> list[Cue]:
    """Return the cues of a whole speech, in order; they do not overlap."""
    result: list[Cue] = []
    for written, start, end, words in _sentences(pieces):
        text, places = without_marks(written, [position for position, _ in words])
        result += _cut(text, start, end, [(place, word) for place, (_, word) in zip(places, words, strict=True)])
    return [
        Cue(cue.start, _until(cue, result[index + 1] if index + 1 < len(result) else None), cue.text)
        for index, cue in enumerate(result)
    ]


def without_marks(text: str, positions: Sequence[int] = ()) -> tuple[str, list[int]]:
    """Return a text as it is shown: words without their pronunciations, no pauses; and where `positions` are in it."""
    kept: list[tuple[int, int]] = []
    position = 0
    with suppress(MarkupError):  # brackets that are no mark were spoken as they are
        for mark in marks.parse(text):
            kept.append((position, mark.start))
            if isinstance(mark, Reading):
                kept.append((mark.word_start, mark.word_end))
            position = mark.end
    kept.append((position, len(text)))
    begins = [begin for begin, _ in kept]
    shown = list(accumulate((end - begin for begin, end in kept), initial=0))
    parts = (bisect_right(begins, each) - 1 for each in positions)
    places = [shown[i] + min(each, kept[i][1]) - begins[i] for i, each in zip(parts, positions, strict=True)]
    return "".join(text[begin:end] for begin, end in kept), places


def render(found: Sequence[Cue], kind: SubtitleFormat) -> str:
    """Return the text of the file."""
    if kind == "vtt":
        blocks = [
            f"{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n{escape(cue.text, quote=False)}\n" for cue in found
        ]
        return "\n".join(["WEBVTT\n", *blocks])
    blocks = [
        f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\n{cue.text}\n"
        for number, cue in enumerate(found, 1)
    ]
    return "\n".join(blocks)


_TimedSentence = tuple[str, float, float, list[tuple[int, TimedWord]]]


def _sentences(pieces: Iterable[TimedText]) -> Iterator[_TimedSentence]:
    """Yield the text, start, end and words with their places of each sentence; pauses are left out."""
    text, position, start, end = "", -1, 0.0, 0.0
    words: list[tuple[int, TimedWord]] = []
    for piece in pieces:
        if not piece.text:
            continue
        if piece.char_start != position or piece.text != text:
            if text:
                yield text, start, end, words
            text, position, start, words = piece.text, piece.char_start, piece.start, []
        end = piece.start + piece.duration
        words += [(word.char_start - piece.char_start, word) for word in piece.words]
    if text:
        yield text, start, end, words


def _cut(text: str, start: float, end: float, words: list[tuple[int, TimedWord]]) -> Iterator[Cue]:
    """Yield the cues of one sentence. Without word times its lines share its time."""
    if not words:
        lines = textwrap.wrap(_one_line(text), LINE * LINES) or [""]
        share = (end - start) / len(lines)
        for index, line in enumerate(lines):
            yield Cue(start + index * share, start + (index + 1) * share, _wrap(line))
        return
    first = 0
    while first < len(words):
        last = _last_word(text, words, first)
        begin = words[first][0] if first else 0
        stop = words[last + 1][0] if last + 1 < len(words) else len(text)
        yield Cue(words[first][1].start, words[last][1].end, _wrap(_one_line(text[begin:stop])))
        first = last + 1


def _last_word(text: str, words: list[tuple[int, TimedWord]], first: int) -> int:
    """Return the last word of the cue that begins with word `first`: the last clause end or word that fits."""
    best = fits = first
    for index in range(first, len(words)):
        stop = words[index + 1][0] if index + 1 < len(words) else len(text)
        shown = _one_line(text[words[first][0] if first else 0 : stop])
        if len(textwrap.wrap(shown, LINE)) > LINES or words[index][1].end - words[first][1].start > MAX_CUE_SECONDS:
            # A clause of a word or two is not worth a cue.
            return best if best > first + 1 else fits
        fits = index
        if _CLAUSE_END.search(shown):
            best = index
    return fits


def _until(cue: Cue, following: Cue | None) -> float:
    end = max(cue.end, cue.start + MIN_CUE_SECONDS)
    return end if following is None else max(cue.start, min(end, following.start))


def _one_line(text: str) -> str:
    return _BLANK.sub(" ", text.strip())


def _wrap(text: str) -> str:
    """Return `text` in at most two lines of about the same length."""
    if len(text) <= LINE:
        return text
    for width in range(-(-len(text) // LINES), LINE + 1):
        lines = textwrap.wrap(text, width)
        if len(lines) <= LINES:
            return "\n".join(lines)
    return "\n".join(textwrap.wrap(text, LINE))


def _time(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
