"""Blocks of tokens, which the readers of plain text, Markdown and HTML make of a source.

A block is a paragraph, a heading or a table cell: no sentence goes beyond it. The source between blocks is kept. A
block without tokens only reports progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from app.translation.text.placeholders import VERBATIM

MOST_TOKENS: Final = 4000
"""Most tokens of a block, so that memory is bounded for a source of only tags."""

LONGEST_RUN: Final = 20_000
"""Most characters of text that are read in one step, so that other work has its turn."""


class InlineKind(Enum):
    """Role of a token in its sentence."""

    TEXT = auto()  # text to translate
    OPEN = auto()  # begins inline markup: <b>, **, [
    CLOSE = auto()  # ends it
    VOID = auto()  # stands for a word: a URL, inline code
    MARK = auto()  # stands for no word: a comment, an image
    BREAK = auto()  # no sentence goes across it: <br>


@dataclass(slots=True, eq=False)
class InlineToken:
    """Characters [start, end) of the source. `view` is the visible text, with entities decoded.

    `out` replaces the source in a translated sentence (a short reference link must keep its label).
    """

    start: int
    end: int
    kind: InlineKind
    view: str = ""
    partner: InlineToken | None = None
    out: str | None = None

    def pair(self, opening: InlineToken) -> None:
        """Make this token the partner of `opening`."""
        self.partner, opening.partner = opening, self


Block = list[InlineToken]

_SPACES: Final = re.compile(r"\s+")


def portions(source: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in parts of at most LONGEST_RUN characters, cut at a sentence or a space if possible."""
    while end - start > LONGEST_RUN:
        stop = start + LONGEST_RUN
        cut = source.rfind(". ", start, stop) + 2
        if cut < start + 2:
            cut = source.rfind(" ", start, stop) + 1 or stop
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def text_tokens(source: str, start: int, end: int) -> Iterator[InlineToken]:
    """Yield [start, end) as text tokens, and a VOID token for each address and name of a value."""
    position = start
    for match in VERBATIM.finditer(source, start, end):
        if match.start() > position:
            yield InlineToken(position, match.start(), InlineKind.TEXT, source[position : match.start()])
        yield InlineToken(match.start(), match.end(), InlineKind.VOID)
        position = match.end()
    if position < end:
        yield InlineToken(position, end, InlineKind.TEXT, source[position:end])


def flowing_tokens(source: str, start: int, end: int) -> Iterator[InlineToken]:
    """Yield the tokens of `text_tokens`, with line breaks and repeated white space as one space."""
    for token in text_tokens(source, start, end):
        if token.kind is not InlineKind.TEXT:
            yield token
            continue
        position = token.start
        for match in _SPACES.finditer(source, token.start, token.end):
            if match.group() == " ":
                continue
            if match.start() > position:
                yield InlineToken(position, match.start(), InlineKind.TEXT, source[position : match.start()])
            yield InlineToken(match.start(), match.end(), InlineKind.TEXT, " ")
            position = match.end()
        if position < token.end:
            yield InlineToken(position, token.end, InlineKind.TEXT, source[position : token.end])
