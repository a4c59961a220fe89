"""HTML tags and character references in a language model's text."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import SILENT, Mode, Rule, State, beginnings, change, drop, say_as
from app.text.markup import ENTITY, ENTITY_START, SUPERSCRIPTS, TAG, TAG_START, decode

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


def _raise(tag: str) -> str:
    raised = re.split("[<>]", tag)[2].strip()
    return f"^{raised}" if raised.isalpha() else raised.translate(SUPERSCRIPTS)


_SUP: Final = r"<(?i:sup)(?:\s[^<>\n]{0,60})?>\s{0,3}"
HTML_RULES: Final = (
    Rule(r"<!--", change(context="-->")),
    Rule(
        rf"{_SUP}(?:[-−]?[0-9]{{1,4}}|[nxky])\s{{0,3}}</(?i:sup)>",
        say_as(_raise),
        rf"{_SUP}(?:[-−]?[0-9]{{0,4}}|[nxky])\s{{0,3}}(?:<(?:/(?i:s|su|sup)?)?)?",
    ),
    Rule(TAG.pattern, _read_tag, TAG_START.pattern),
    Rule(ENTITY.pattern, _decode, ENTITY_START.pattern),
)
