"""Output of the cleaner: cleaned text with its spans of the original, and the white space between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple


class CleanText(NamedTuple):
    """Speakable text for characters [start, end) of the original.

    If the lengths are equal, each character stands for one of the original.
    """

    text: str
    start: int
    end: int


_NOTHING: Final = CleanText("", 0, 0)


class Output:
    """Collector of cleaned text. Positions are in the current text, which begins at `base` of the original."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._done: list[list[CleanText]] = []  # runs of neighbors that are the original
        self._joint = -1  # end of the last run, if it may go on
        self._end = "\n\n"  # last two characters of the output
        self._gap = _NOTHING  # white space or comma that is due before the next text of the line

    def collect(self) -> list[CleanText]:
        """Return the text that was given out since the last call."""
        done, self._done = self._done, []
        self._joint = -1
        return [CleanText("".join([piece.text for piece in run]), run[0].start, run[-1].end) for run in done]

    def space(self, start: int, end: int) -> None:
        """Have a space before the next text, unless one is due already."""
        if not self._gap.text and self._end[-1] not in " \n":
            self._gap = CleanText(" ", self.base + start, self.base + end)

    def comma(self, start: int, end: int) -> None:
        """Have a comma before the next text of the line, unless that begins the line."""
        if self._end[-1] != "\n":
            self._gap = CleanText(", ", self.base + start, self.base + end)

    def newline(self, at: int) -> None:
        """End the line. Of several blank lines, keep one."""
        if self._end != "\n\n":
            self.give("\n", at, at + 1)

    def break_block(self, at: int) -> None:
        """Have a blank line before the next text."""
        self._gap = _NOTHING
        while self._end != "\n\n":
            self.give("\n", at, at)

    def give(self, said: str, start: int, end: int) -> None:
        """Give out text for characters [start, end), after the white space that is due."""
        if not said:
            return
        piece = CleanText(said, self.base + start, self.base + end)
        gap, self._gap = self._gap, _NOTHING
        # The text between a space and a stop may be dropped.
        needless = said[0] == "\n" or (gap.text == " " and gap.end < piece.start and said[0] in ".,;:!?…)")
        if gap.text and not needless:
            self._add(gap)
            self._end = gap.text[-1]
        self._add(piece)
        self._end = (self._end + said)[-2:]

    def _add(self, piece: CleanText) -> None:
        original = _is_original(piece)
        if original and piece.start == self._joint:
            self._done[-1].append(piece)
        else:
            self._done.append([piece])
        self._joint = piece.end if original else -1


def _is_original(piece: CleanText) -> bool:
    return len(piece.text) == piece.end - piece.start


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
            used = min(count, len(piece.text) - self._used)
            self._used += used
            count -= used
            self._end = piece.start + self._used if _is_original(piece) else piece.end
            if self._used == len(piece.text):
                self._pieces.popleft()
                self._used = 0
        return start, self._end
