"""Reader of plain text: paragraphs, lines, and the bullets and numbers before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from app.text.scripts import script_of
from app.translation.text.inline import MAX_TOKENS, Block, InlineKind, InlineToken, text_tokens

_LINE: Final = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_LABEL: Final = re.compile(
    r"\s*(?:(?:[-*+•‣▪●○◦·–—>#]{1,6}|[(\[]?(?:\d{1,3}|[A-Za-z])[.)\]])(?=\s)\s*){0,4}(?:[・※■□◆◇▶►✓✔✗]\s*)?"
)
_LABELED: Final = re.compile(r"\s|[-*+•‣▪●○◦·–—>#・※■□◆◇▶►✓✔✗]|[(\[]?(?:\d{1,3}|[A-Za-z])[.)\]]\s")
_ENDED: Final = re.compile(r"[.!?:;…。！？：；।॥۔؟።។།]['\"”’»)\]」』）]*\s*$")
_WRAPPED: Final = 50
"""Least length of a line that may be wrapped: its sentence may go on in the next line."""


def read(source: str) -> Iterator[Block]:
    """Yield the blocks of a plain text: its lines, with wrapped lines joined."""
    block: Block = []
    last: tuple[int, int] | None = None
    for match in _LINE.finditer(source):
        start, end = match.span()
        if last and _continues(source, last, (start, end)) and len(block) < MAX_TOKENS:
            unspaced = script_of(source[last[1] - 1]) in {"Hani", "Kana"}
            block.append(InlineToken(last[1], start, InlineKind.TEXT, "" if unspaced else " "))
        else:
            if block:
                yield block
            block = []
            label = _LABEL.match(source, start, end)
            start = label.end() if label else start
        block += text_tokens(source, start, end)
        last = match.span()
    if block:
        yield block


def _continues(source: str, last: tuple[int, int], line: tuple[int, int]) -> bool:
    """Return whether a line continues the line before it, as in a wrapped e-mail, not a list."""
    gap = source[last[1] : line[0]]
    if gap not in {"\n", "\r\n"} or last[1] - last[0] < _WRAPPED or _LABELED.match(source, *line):
        return False
    first = source[line[0]]
    return first.isalpha() and not first.isupper() and not _ENDED.search(source, last[1] - 20, last[1])
