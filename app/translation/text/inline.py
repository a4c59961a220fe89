"""Blocks of tokens, which the readers of plain text, Markdown and HTML make of a source.

A block is a paragraph, a heading or a table cell: no sentence goes beyond it. The source between blocks is kept. A
block without tokens only reports progress.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from operator import itemgetter
from typing import Final

from app.translation.text.placeholders import VERBATIM

MAX_TOKENS: Final = 4000
"""Most tokens of a block, so that memory is bounded for a source of only tags."""

MAX_RUN_CHARACTERS: Final = 20_000
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

    `partner` is the start of the token that ends what this one begins, or the other way. `out` replaces the source in a
    translated sentence (a short reference link must keep its label).
    """

    start: int
    end: int
    kind: InlineKind
    view: str = ""
    partner: int | None = None
    out: str | None = None

    def pair(self, opening: InlineToken) -> None:
        """Make this token the partner of `opening`."""
        self.partner, opening.partner = opening.start, self.start


Block = list[InlineToken]

# Signs of messages with branches (ICU MessageFormat): "{count, plural, one {# file} other {# files}}".
_MESSAGE: Final = re.compile(
    r"\{\s{0,9}[\w.]{1,60}\s{0,9},\s{0,9}(?:plural|select|selectordinal)\s{0,9},|[{}]|#(?![\w#{])"
)
_REFERENCE: Final = re.compile(
    rf"{VERBATIM.pattern}|&(?:nbsp|amp|lt|gt|quot|apos|hellip|[mn]dash|#x?[0-9a-fA-F]{{1,6}});"
)
_SPACES: Final = re.compile(r"\s+")


def portions(source: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in parts of at most MAX_RUN_CHARACTERS, cut at a sentence or a space if possible."""
    while end - start > MAX_RUN_CHARACTERS:
        stop = start + MAX_RUN_CHARACTERS
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
    for match in _REFERENCE.finditer(source, start, end):
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


def message_syntax(source: str) -> list[tuple[int, int, InlineKind]]:
    """Return start, end and role of what is no text in messages with branches: their names and braces, and "#"."""
    syntax: list[tuple[int, int, InlineKind]] = []
    opened: list[str] = []  # "m": a message, "b": a branch of it, "v": other braces
    kept = begin = 0
    for match in _MESSAGE.finditer(source):
        sign, inner = match.group(), opened[-1] if opened else ""
        kept = kept if opened else len(syntax)
        if sign == "#":
            if inner == "b":
                syntax.append((*match.span(), InlineKind.VOID))
        elif inner == "m":
            syntax.append((begin, match.end(), InlineKind.BREAK))
            opened[-1:] = [] if sign == "}" else ["m", "b"]
        elif opened or len(sign) > 1:
            begin = match.start()
            opened[-1:] = [] if sign == "}" else [*opened[-1:], "v" if sign == "{" else "m"]
    return syntax[:kept] if opened else syntax


def without_syntax(source: str, block: Block, syntax: list[tuple[int, int, InlineKind]]) -> Iterator[InlineToken]:
    """Yield the tokens of a block, cut where `syntax` is."""
    for token in block:
        position, at = token.start, bisect_right(syntax, token.start, key=itemgetter(1))
        # A name of a value may be a branch: "{n, plural, other {files}}".
        whole = len(token.view) == token.end - token.start or source[token.start] == "{"
        while whole and at < len(syntax) and syntax[at][0] < token.end:
            begin, end, kind = syntax[at]
            if begin > position:
                yield InlineToken(position, begin, InlineKind.TEXT, source[position:begin])
            yield InlineToken(max(begin, position), position := min(end, token.end), kind)
            at += 1
        if position == token.start:
            yield token
        elif position < token.end:
            yield InlineToken(position, token.end, InlineKind.TEXT, source[position : token.end])
