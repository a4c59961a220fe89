"""When each character is spoken, from when each word is.

A word's characters share its time evenly, and what stands between two words (spaces, punctuation, markup) the time
between them. Where a model does not say when its words are spoken, the characters of a sentence share its time evenly;
of a sentence that comes in several pieces, whose length is not known before the last, the earlier pieces take
CHARACTERS_PER_SECOND. Every character of the text is in exactly one piece's alignment, in order, and ends where the
next one begins; the last one of a piece ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from app.speech.stream import SpokenChunk

# An unhurried reader of English.
CHARACTERS_PER_SECOND = 15.0


@dataclass(frozen=True, slots=True)
class Alignment:
    """`text`, and for each of its characters the seconds of the stream at which it begins; `end` is the last's end."""

    text: str
    starts: tuple[float, ...]
    end: float

    @property
    def ends(self) -> tuple[float, ...]:
        """For each character the second at which it ends: where the next one begins."""
        return (*self.starts[1:], self.end) if self.starts else ()

    def __add__(self, later: Alignment) -> Alignment:
        return Alignment(self.text + later.text, self.starts + later.starts, later.end) if later.text else self


class Aligner:
    """Turns the chunks of one stream, in order, into alignments of its text, which may still grow.

    `timed`: the model says when its words are spoken.
    """

    def __init__(self, text: str = "", *, timed: bool) -> None:
        self._text = text
        self._cursor = 0
        self._timed = timed
        self._clock = 0.0

    def feed(self, text: str) -> None:
        """The stream's text goes on."""
        self._text += text

    def push(self, chunk: SpokenChunk) -> Alignment:
        """The characters that `chunk` speaks: maybe none, of a pause or of a piece within a word."""
        end = chunk.start + chunk.duration
        self._clock = end
        if not chunk.text:
            return Alignment("", (), end)
        # Corners: (character, second), between which time runs evenly.
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
        """What is left of the text at the end of the audio: nothing of it was spoken."""
        return self._between([(self._cursor, self._clock), (len(self._text), self._clock)], self._clock)

    def _with_space(self, position: int) -> int:
        """The end of the white space after `position`: it belongs to the sentence before it."""
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
