"""HTML tags and character references in a language model's text."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import SILENT, Mode, Rule, State, beginnings, change, drop
from app.text.markup import ENTITY, ENTITY_START, TAG, TAG_START, decode

_BREAKING: Final = re.compile(r"(?:br|p|div|li|ul|ol|tr|table|h[1-6]|hr|blockquote|section)", re.IGNORECASE)
_SILENT_ELEMENTS: Final = ("script", "style")


def _read_tag(state: State, token: re.Match[str]) -> None:
    tag = token.group()
    name = re.split(r"[^\w:-]+", tag)[1].lower()
    opens = tag[1] != "/" and tag[-2] != "/"
    if name in _SILENT_ELEMENTS and opens and token.string[token.start() - 1] == "\n":
        state.context = f"</{name}>"
    elif _BREAKING.fullmatch(name):
        state.break_block(token.start())


def _skip_to(end: str) -> Mode:
    return Mode(
        Rule(rf"(?i:{re.escape(end)})", change(context="text"), beginnings(end)),
        Rule(r"[^<\-]+|.", drop),
    )


SILENT_PARTS: Final = {end: _skip_to(end) for end in ("-->", *(f"</{name}>" for name in _SILENT_ELEMENTS))}
"""Modes of the parts that are not spoken, by the text that ends each."""


def _decode(state: State, token: re.Match[str]) -> None:
    start, end = token.span()
    decoded = decode(token.group())
    if decoded.isspace():
        state.out.space(start, end)
    elif not decoded:  # no reference
        state.out.give(token.group(), start, end)
    elif not SILENT.match(decoded):
        state.out.give(decoded, start, end)


HTML_RULES: Final = (
    Rule(r"<!--", change(context="-->")),
    Rule(TAG.pattern, _read_tag, TAG_START.pattern),
    Rule(ENTITY.pattern, _decode, ENTITY_START.pattern),
)
