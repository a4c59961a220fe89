"""Output of the cleaner: cleaned text with its spans of the original, and the white space between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.llm_text.signs import has_silent, is_pictograph, is_silent


@dataclass(frozen=True, slots=True)
class CleanText:
    """Speakable text for characters [start, end) of the original. If the lengths are equal, it is the original."""

    text: str
    start: int
    end: int


_NOTHING: Final = CleanText("", 0, 0)


class Output:
    """Collector of cleaned text. Positions are in the current text, which begins at `base` of the original."""

    def __init__(self) -> None:
        self.base = 0
        self._done: list[CleanText] = []
        self.reset()

    def reset(self) -> None:
        """Begin another text."""
        self._last = "\n"
        self._newlines = 2  # at the end of the output
        self._gap = _NOTHING  # white space or comma that is due before the next text of the line
        self._pictograph = False

    def collect(self) -> list[CleanText]:
        """Return the text that was given out since the last call."""
        done, self._done = self._done, []
        return _merged(done)

    @property
    def in_gap(self) -> bool:
        """Return whether white space is due before the next text."""
        return bool(self._gap.text)

    def space(self, start: int, end: int) -> None:
        """Have a space before the next text, unless one is due already."""
        if not self._gap.text and self._last not in (" ", "\n"):
            self._gap = CleanText(" ", self.base + start, self.base + end)

    def comma(self, start: int, end: int) -> None:
        """Have a comma before the next text of the line, unless that begins the line."""
        if self._last != "\n":
            self._gap = CleanText(", ", self.base + start, self.base + end)

    def newline(self, at: int) -> None:
        """End the line. Of several blank lines, keep one."""
        if self._newlines < 2:
            self.give("\n", at, at + 1)

    def break_block(self, at: int) -> None:
        """Have a blank line before the next text."""
        self._gap = _NOTHING
        while self._newlines < 2:
            self.give("\n", at, at)

    def verbatim(self, text: str, at: int, count: int) -> int:
        """Give out `count` characters as they are, without pictographs. Return `count`."""
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
        """Give out text for characters [start, end), after the white space that is due."""
        if not said:
            return
        start, end = self.base + start, self.base + end
        gap, self._gap = self._gap, _NOTHING
        # The text between a space and a stop may be dropped.
        needless = said[0] == "\n" or (gap.text == " " and gap.end < start and said[0] in ".,;:!?…)")
        if gap.text and not needless:
            self._done.append(gap)
        self._done.append(CleanText(said, start, end))
        self._last = said[-1]
        breaks = len(said) - len(said.rstrip("\n"))
        self._newlines = breaks if breaks < len(said) else min(self._newlines + breaks, 2)


class Origins:
    """Map from cleaned text to the original, without gaps."""

    def __init__(self) -> None:
        self._pieces: deque[CleanText] = deque()
        self._used = 0
        self._end = 0

    def add(self, pieces: Iterable[CleanText]) -> None:
        """Add output of a `Cleaner`, in order."""
        self._pieces.extend(pieces)

    def take(self, count: int) -> tuple[int, int]:
        """Return the span of the original for the next `count` characters, with the text dropped before them."""
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


def _merged(pieces: list[CleanText]) -> list[CleanText]:
    """Join neighbors whose text is the original."""
    merged: list[CleanText] = []
    run: list[CleanText] = []

    def close() -> None:
        if run:
            merged.append(CleanText("".join(piece.text for piece in run), run[0].start, run[-1].end))
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
