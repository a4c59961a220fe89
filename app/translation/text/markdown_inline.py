"""Reader of Markdown's inline markup: emphasis, code, links, tags, mathematics."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Generator, Iterator
from typing import Final

from app.translation.text.inline import MAX_TOKENS, Block, InlineKind, InlineToken, portions
from app.translation.text.markup_html import INLINE, WORDS, read_references
from app.translation.text.placeholders import VERBATIM

_INLINE: Final = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>`+)"
    r"|(?P<auto><(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]{0,2000}|[^\s<>@]{1,100}@[^\s<>@]{1,200})>)"
    r"|(?P<tag><(?:!--(?:(?!-->)[^<]){0,2000}-->|/?[A-Za-z](?:[^<>\"']|\"[^\"<>]*\"|'[^'<>]*'){0,2000}>))"
    r"|(?P<note>\[\^[^\[\]\s]{1,100}\])"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\])"
    r"|(?P<math>\$(?![\s$])(?:[^$\n\\]|\\.){0,300}(?<!\s)\$(?!\d))"
    r"|(?P<template>\{\{[^{}\n]{1,200}\}\}|(?<![\w:]):[a-z][a-z0-9_+-]{1,40}:(?![\w:]))"
    r"|(?P<run>\*{1,3}|_{1,3}|~~|==)"
)
_TARGET: Final = re.compile(
    r"\([ \t]*(?:<[^<>\n]{0,2000}>|(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.){0,300}\)){0,2000})"
    r"(?:\s+(?:\"(?:[^\"\\]|\\.){0,1000}\"|'(?:[^'\\]|\\.){0,1000}'|\((?:[^()\\]|\\.){0,1000}\)))?\s*\)"
)
# Most characters of a label (CommonMark, section 4.7).
_MAX_LABEL_CHARACTERS: Final = 999
_LABEL: Final = re.compile(r"\[(?:[^\[\]\\]|\\.){0,300}\]")
_TICKS: Final = re.compile("`+")
_TAG_NAME: Final = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)")


def fold_label(label: str) -> str:
    """Return the form of a label by which references find it."""
    return " ".join(label.split()).casefold()


class InlineReader:
    """Reader of the inline markup of one block. `pieces` are the spans of its lines."""

    def __init__(self, source: str, pieces: list[tuple[int, int]], labels: set[str]) -> None:
        self._source = source
        self._pieces = pieces
        self._labels = labels
        self._tokens: Block = []
        self._brackets: list[InlineToken] = []
        self._runs: defaultdict[str, list[InlineToken]] = defaultdict(list)
        self._unclosed: set[str] = set()
        self._ticks: defaultdict[int, list[int]] = defaultdict(list)
        for start, end in pieces:
            for match in _TICKS.finditer(source, start, end):
                self._ticks[match.end() - match.start()].append(match.start())

    def blocks(self) -> Iterator[Block]:
        """Yield the block, after empty blocks that report progress."""
        position = self._pieces[0][0]
        for start, end in self._pieces:
            if start > position and self._tokens:
                self._tokens.append(InlineToken(position, start, InlineKind.TEXT, " "))
            position = yield from self._line(max(start, position), end)
        # Marks without a partner are text.
        for token in self._tokens:
            if (
                token.kind in {InlineKind.OPEN, InlineKind.CLOSE}
                and token.partner is None
                and self._source[token.start] != "<"
            ):
                token.kind, token.view = InlineKind.TEXT, self._source[token.start : token.end]
        yield self._tokens

    def _line(self, start: int, end: int) -> Generator[Block, None, int]:
        """Read one line. Return the end, which is beyond the line if markup goes on in the next one."""
        source = self._source
        position = start
        told = len(self._tokens)
        match = _INLINE.search(source, start, end)
        while position < end:
            if match is not None and match.start() < position:  # a match ahead is still valid
                match = _INLINE.search(source, position, end)
            address = VERBATIM.search(source, position, match.start() if match else end)
            if address and match:  # a `_` in a URL is no emphasis
                address = VERBATIM.match(source, address.start(), end)
            if len(self._tokens) - told > MAX_TOKENS:
                told = len(self._tokens)
                yield []
            if address:
                yield from self._text(position, address.start())
                self._tokens.append(InlineToken(address.start(), address.end(), InlineKind.VOID))
                position = address.end()
                continue
            if match is None:
                yield from self._text(position, end)
                return end
            yield from self._text(position, match.start())
            position = self._markup(match, end)
        return position

    def _text(self, start: int, end: int) -> Iterator[Block]:
        for number, portion in enumerate(portions(self._source, start, end)):
            if number:
                yield []
            self._tokens += read_references(self._source, *portion)

    def _add(self, start: int, end: int, kind: InlineKind, view: str = "") -> int:
        self._tokens.append(InlineToken(start, end, kind, view))
        return end

    def _markup(self, match: re.Match[str], line_end: int) -> int:
        start, end = match.span()
        source = self._source
        group = match.lastgroup
        if group == "escape":
            return self._add(start, end, InlineKind.TEXT, source[start + 1])
        if group == "code":
            closing = self._ticks[end - start]
            following = bisect_right(closing, start)
            if following < len(closing):
                return self._add(start, closing[following] + end - start, InlineKind.VOID)
            return self._add(start, end, InlineKind.TEXT, match.group())
        if group == "tag":
            return self._tag(start, end, line_end)
        if group == "open":
            self._add(start, end, InlineKind.OPEN)
            self._brackets.append(self._tokens[-1])
            return end
        if group == "close":
            return self._close_bracket(start, end, line_end)
        if group == "run":
            return self._run(start, end)
        return self._add(start, end, InlineKind.MARK if group == "note" else InlineKind.VOID)  # auto, math, template

    def _tag(self, start: int, end: int, line_end: int) -> int:
        source = self._source
        found = _TAG_NAME.match(source, start)
        name = found.group(1).lower() if found else ""
        if not name or name in {"img", "wbr"}:
            return self._add(start, end, InlineKind.MARK)
        if name in WORDS and source[start + 1] != "/" and name not in self._unclosed:
            closing = source.find(f"</{name}>", end, line_end)
            if closing >= 0:
                return self._add(start, closing + len(name) + 3, InlineKind.VOID)
            self._unclosed.add(name)
        if name not in INLINE and name not in WORDS:
            return self._add(start, end, InlineKind.BREAK)
        if source[start + 1] != "/":
            self._add(start, end, InlineKind.OPEN)
            self._runs["<" + name].append(self._tokens[-1])
        else:
            self._add(start, end, InlineKind.CLOSE)
            if self._runs["<" + name]:
                self._tokens[-1].pair(self._runs["<" + name].pop())
        return end

    def _close_bracket(self, start: int, end: int, line_end: int) -> int:
        source = self._source
        if not self._brackets:
            return self._add(start, end, InlineKind.TEXT, "]")
        opening = self._brackets.pop()
        label = source[opening.end : start]
        target = _TARGET.match(source, end, line_end) or self._reference(label, end, line_end)
        if target is None and not self._is_defined(label):
            opening.kind, opening.view = InlineKind.TEXT, source[opening.start : opening.end]
            return self._add(start, end, InlineKind.TEXT, "]")
        closing = target.end() if target else end
        if source[opening.start] == "!":  # an image is kept whole, with its description
            while self._tokens.pop() is not opening:
                pass
            return self._add(opening.start, closing, InlineKind.MARK)
        self._add(start, closing, InlineKind.CLOSE)
        self._tokens[-1].pair(opening)
        if target is None or target.group() == "[]":
            self._tokens[-1].out = f"][{label}]"
        return closing

    def _reference(self, label: str, start: int, end: int) -> re.Match[str] | None:
        target = _LABEL.match(self._source, start, end)
        if target is None or not self._is_defined(target.group()[1:-1] or label):
            return None
        return target

    def _is_defined(self, label: str) -> bool:
        return bool(self._labels) and len(label) <= _MAX_LABEL_CHARACTERS and fold_label(label) in self._labels

    def _run(self, start: int, end: int) -> int:
        source = self._source
        run = source[start:end]
        before, after = source[start - 1 : start], source[end : end + 1]
        opens, closes = bool(after.strip()), bool(before.strip())
        if run[0] == "_":  # inside a word it is no mark
            opens, closes = opens and not before.isalnum(), closes and not after.isalnum()
        if closes and self._runs[run]:
            self._add(start, end, InlineKind.CLOSE)
            self._tokens[-1].pair(self._runs[run].pop())
        elif opens:
            self._add(start, end, InlineKind.OPEN)
            self._runs[run].append(self._tokens[-1])
        else:
            self._add(start, end, InlineKind.TEXT, run)
        return end
