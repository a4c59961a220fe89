"""Cleaned text on its way out: white space between what is given out, and where in the original it stood."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.llm_text.signs import has_silent, is_pictograph, is_silent


@dataclass(frozen=True, slots=True)
class Clean:
    """Speakable text that stands for characters [start, end) of the original. Of equal length, it is the original."""

    text: str
    start: int
    end: int


_NOTHING: Final = Clean("", 0, 0)


class Output:
    """Collects pieces; positions are characters of the text at hand, which begins at `base` of the original."""

    def __init__(self) -> None:
        self.base = 0
        self._done: list[Clean] = []
        self.reset()

    def reset(self) -> None:
        """Another text begins."""
        self._last = "\n"
        self._newlines = 2  # given out last, as if before the first text
        self._gap = _NOTHING  # white space, or a comma with it, that comes before what follows in the line
        self._pictograph = False

    def collect(self) -> list[Clean]:
        """What was given out since the last call."""
        done, self._done = self._done, []
        return _merged(done)

    @property
    def in_gap(self) -> bool:
        """Whether white space comes before what follows."""
        return bool(self._gap.text)

    def space(self, start: int, end: int) -> None:
        """White space, unless there is some already."""
        if not self._gap.text and self._last not in (" ", "\n"):
            self._gap = Clean(" ", self.base + start, self.base + end)

    def comma(self, start: int, end: int) -> None:
        """A comma before what follows in the line, unless it begins the line."""
        if self._last != "\n":
            self._gap = Clean(", ", self.base + start, self.base + end)

    def newline(self, at: int) -> None:
        """The end of a line; of blank lines one is kept."""
        if self._newlines < 2:
            self.give("\n", at, at + 1)

    def break_block(self, at: int) -> None:
        """Have a blank line before what follows."""
        self._gap = _NOTHING
        while self._newlines < 2:
            self.give("\n", at, at)

    def verbatim(self, text: str, at: int, count: int) -> int:
        """Give out characters as they are, but for pictographs; returns how many they were."""
        start = at
        if not self._pictograph and not has_silent(text, at, at + count):
            self.give(text[at : at + count], at, at + count)
            return count
        for position in range(at, at + count):
            silent = is_silent(text[position], self._pictograph)
            self._pictograph = is_pictograph(text[position]) or (silent and self._pictograph)
            if silent:
                self.give(text[start:position], start, position)
                start = position + 1
        self.give(text[start : at + count], start, at + count)
        return count

    def give(self, said: str, start: int, end: int) -> None:
        """Give out what stands for characters [start, end) of the text at hand, and the white space before it."""
        if not said:
            return
        start, end = self.base + start, self.base + end
        gap, self._gap = self._gap, _NOTHING
        # What stood between a space and a stop may be gone.
        needless = said[0] == "\n" or (gap.text == " " and gap.end < start and said[0] in ".,;:!?…)")
        if gap.text and not needless:
            self._done.append(gap)
        self._done.append(Clean(said, start, end))
        self._last = said[-1]
        breaks = len(said) - len(said.rstrip("\n"))
        self._newlines = breaks if breaks < len(said) else min(self._newlines + breaks, 2)


class Origins:
    """Which characters of the original stand behind the next ones that were given out: nothing is left out between."""

    def __init__(self) -> None:
        self._pieces: deque[Clean] = deque()
        self._used = 0
        self._end = 0

    def add(self, pieces: Iterable[Clean]) -> None:
        """Note what a `Cleaner` gave out, in order."""
        self._pieces.extend(pieces)

    def take(self, count: int) -> tuple[int, int]:
        """The span of the original for the next `count` characters, with what was dropped before and among them."""
        start = self._end
        while count:
            piece = self._pieces[0]
            length = len(piece.text)
            used = min(count, length - self._used)
            self._used += used
            count -= used
            verbatim = length == piece.end - piece.start
            self._end = piece.start + self._used if verbatim else piece.end
            if self._used == length:
                self._pieces.popleft()
                self._used = 0
        return start, self._end


def _merged(pieces: list[Clean]) -> list[Clean]:
    """Join neighbors that are the original's own characters."""
    merged: list[Clean] = []
    run: list[Clean] = []

    def close() -> None:
        if run:
            merged.append(Clean("".join(piece.text for piece in run), run[0].start, run[-1].end))
            run.clear()

    for piece in pieces:
        verbatim = len(piece.text) == piece.end - piece.start
        if not verbatim or (run and run[-1].end != piece.start):
            close()
        if verbatim:
            run.append(piece)
        else:
            merged.append(piece)
    close()
    return merged
