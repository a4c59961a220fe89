"""What the readers of plain text, Markdown and HTML hand to `document`: blocks of tokens, by place in the source.

A block is what belongs together in a sentence: a paragraph, a heading, a table cell. Between blocks everything is
kept as it is. A block without tokens says only that the reader got on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from app.translation.text.placeholders import ADDRESS

MOST_TOKENS: Final = 4000
"""Tokens after which a block is ended, so that a bomb of tags takes bounded memory."""

LONGEST_RUN: Final = 20_000
"""Characters of text that are read at once: whoever reads a document has others' turns between."""


class InlineKind(Enum):
    """What a token is to the sentence around it."""

    TEXT = auto()  # to translate
    OPEN = auto()  # begins something inline: <b>, **, [
    CLOSE = auto()  # ends it
    VOID = auto()  # takes a word's place: a URL, inline code
    MARK = auto()  # takes none: a comment, an image
    BREAK = auto()  # no sentence goes across it: <br>


@dataclass(slots=True, eq=False)
class InlineToken:
    """[start, end) of the source. `view` is what a reader sees of it: of text, the text with entities decoded.

    `out` replaces the source where the sentence is translated (a short reference link must keep its label).
    """

    start: int
    end: int
    kind: InlineKind
    view: str = ""
    partner: InlineToken | None = None
    out: str | None = None

    def pair(self, opening: InlineToken) -> None:
        """Make this the end of what `opening` begins."""
        self.partner, opening.partner = opening, self


Block = list[InlineToken]

_SPACES: Final = re.compile(r"\s+")


def portions(source: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in pieces of at most LONGEST_RUN characters, cut at a sentence or a space if one is there."""
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
    """Yield [start, end) as text, with the addresses in it set apart."""
    position = start
    for match in ADDRESS.finditer(source, start, end):
        if match.start() > position:
            yield InlineToken(position, match.start(), InlineKind.TEXT, source[position : match.start()])
        yield InlineToken(match.start(), match.end(), InlineKind.VOID)
        position = match.end()
    if position < end:
        yield InlineToken(position, end, InlineKind.TEXT, source[position:end])


def flowing_tokens(source: str, start: int, end: int) -> Iterator[InlineToken]:
    """As `text_tokens`, where a line break and repeated white space are read as one space."""
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
