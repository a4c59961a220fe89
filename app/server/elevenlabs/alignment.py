"""Times of characters, computed from the times of words.

The characters of a word share its time evenly. The characters between two words (spaces, punctuation, markup) share the
time between them. Some models do not time their words: then the characters of a sentence share its time evenly. The
length of a sentence that comes in several pieces is not known before the last piece, so the earlier pieces take
CHARACTERS_PER_SECOND. Every character of the text is in the alignment of exactly one piece, in order. It ends where the
next one begins, and the last one of a piece ends with the piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.speech.sentence import SpokenChunk

# Rate of a slow reader of English.
CHARACTERS_PER_SECOND = 15.0


@dataclass(frozen=True, slots=True)
class Alignment:
    """Text with the second of the stream at which each of its characters starts. `end`: the end of the last one."""

    text: str
    starts: tuple[float, ...]
    end: float

    @property
    def ends(self) -> tuple[float, ...]:
        """Second at which each character ends: the start of the next one."""
        return (*self.starts[1:], self.end) if self.starts else ()

    @classmethod
    def joined(cls, parts: Sequence[Alignment]) -> Alignment:
        """Return one alignment of all parts, in their order."""
        starts = tuple(start for part in parts for start in part.starts)
        return cls("".join(part.text for part in parts), starts, parts[-1].end)

    def __add__(self, later: Alignment) -> Alignment:
        return Alignment(self.text + later.text, self.starts + later.starts, later.end) if later.text else self


class Aligner:
    """Converter from the chunks of one stream, in order, to alignments of its text, which may still grow.

    `timed`: the model times its words.
    """

    def __init__(self, text: str = "", *, timed: bool) -> None:
        self._text = text
        self._cursor = 0
        self._timed = timed
        self._clock = 0.0

    def feed(self, text: str) -> None:
        """Add `text` to the text of the stream."""
        self._text += text

    def push(self, chunk: SpokenChunk) -> Alignment:
        """Return the characters that `chunk` speaks: none for a pause, or for a piece within a word."""
        end = chunk.start + chunk.duration
        self._clock = end
        if not chunk.text:
            return Alignment("", (), end)
        # Corners: pairs of (character, second). Time is even between two corners.
        corners = [(self._cursor, chunk.start)]
        for word in chunk.words:
            for character, second in ((word.char_start, word.start), (word.char_end, word.end)):
                position = min(max(character, corners[-1][0]), len(self._text))
                corners.append((position, min(max(second, corners[-1][1]), end)))
        if chunk.last:
            corners.append((max(self._with_space(chunk.char_end), corners[-1][0]), end))
        elif not self._timed:
            # The sentence's last piece must have a character left.
            begun = corners[-1][0]
            most = max(min(chunk.char_end, len(self._text)) - 1, begun)
            corners.append((min(begun + round(chunk.duration * CHARACTERS_PER_SECOND), most), end))
        return self._between(corners, end)

    def finish(self) -> Alignment:
        """Return the rest of the text, which was not spoken, at the end of the audio."""
        return self._between([(self._cursor, self._clock), (len(self._text), self._clock)], self._clock)

    def _with_space(self, position: int) -> int:
        """Return the end of the white space after `position`, which belongs to the sentence before it."""
        position = min(position, len(self._text))
        while position < len(self._text) and self._text[position].isspace():
            position += 1
        return position

    def _between(self, corners: list[tuple[int, float]], end: float) -> Alignment:
        starts: list[float] = []
        for (first, begin), (stop, until) in pairwise(corners):
            count = stop - first
            starts += [begin + (until - begin) * index / count for index in range(count)]
        begun, self._cursor = self._cursor, corners[-1][0]
        return Alignment(self._text[begun : self._cursor], tuple(starts), end)
