"""Map from a text that was made of another one back to the other one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class SourceSpan(NamedTuple):
    """Part of a text from character `position` on, and the characters [start, end) of the original that it stands for.

    If the lengths are equal, each character stands for one of the original.
    """

    position: int
    length: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Places:
    """Parts of a text in order, without gaps. An empty one maps every character to itself."""

    parts: Sequence[SourceSpan] = ()

    def start(self, position: int) -> int:
        """Return the first character of the original for the one at `position`."""
        if not self.parts:
            return position
        part = self.parts[max(0, bisect_right(self.parts, position, key=lambda part: part.position) - 1)]
        inside = position - part.position
        if part.length == part.end - part.start and 0 <= inside < part.length:
            return part.start + inside
        return part.start if inside <= 0 else part.end if inside >= part.length else part.start

    def end(self, position: int) -> int:
        """Return the character of the original after the last one that stands before `position`."""
        if not self.parts:
            return position
        part = self.parts[max(0, bisect_right(self.parts, position - 1, key=lambda part: part.position) - 1)]
        inside = position - part.position
        if part.length == part.end - part.start and 0 <= inside <= part.length:
            return part.start + inside
        return part.end if inside > 0 else part.start

    def position(self, original: int) -> int:
        """Return the first character that stands for the one at `original`, or for one after it."""
        if not self.parts:
            return original
        part = self.parts[max(0, bisect_right(self.parts, original, key=lambda part: part.start) - 1)]
        inside = original - part.start
        if part.length == part.end - part.start and 0 <= inside < part.length:
            return part.position + inside
        return part.position if inside <= 0 else part.position + part.length
