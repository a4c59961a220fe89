"""HTML tags and character references in a language model's text."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import SILENT, Mode, ScannerState, TokenRule, beginnings, change, drop, say_as
from app.text.markup import ENTITY, ENTITY_START, TAG, TAG_START, decode, visible_text

_BREAKING: Final = re.compile(r"(?:br|p|div|li|ul|ol|tr|table|h[1-6]|hr|blockquote|section)", re.IGNORECASE)
_SUP: Final = r"<sup(?:[ \t]+[a-z]{1,20}=\"[^\"<>]{0,60}\")?>[ \t]*[-−]?"
_SILENT_ELEMENTS: Final = ("script", "style")


def _visible(text: str) -> str:
    visible = visible_text(text, language="", name_emoji=False)
    return text if visible is None else visible.text.strip()


def _read_tag(state: ScannerState, token: re.Match[str]) -> None:
    tag = token.group()
    start, end = token.span()
    before, after = token.string[start - 1], token.string[end : end + 1]
    if _visible(tag) == tag and (tag[1].isupper() or not (after.isalnum() or (before == "\n" and after in "\r\n"))):
        # A word, such as the name of a key
        if before.isalnum():
            state.out.space(start, start + 1)
        state.out.give(tag[1:-1].strip(), start + 1, end - 1)
        if after.isalnum():
            state.out.space(end - 1, end)
        return
    name = re.split(r"[^\w:-]+", tag)[1].lower()
    opens = tag[1] != "/" and tag[-2] != "/"
    if name in _SILENT_ELEMENTS and opens and before == "\n":
        state.context = f"</{name}>"
    elif _BREAKING.fullmatch(name):
        state.break_block(start)


def _skip_to(end: str) -> Mode:
    return Mode(
        TokenRule(rf"(?i:{re.escape(end)})", change(context="text"), beginnings(end)),
        TokenRule(r"[^<\-]+|.", drop),
    )


SILENT_PARTS: Final = {end: _skip_to(end) for end in ("-->", *(f"</{name}>" for name in _SILENT_ELEMENTS))}
"""Modes of the parts that are not spoken, by the text that ends each."""


def _decode(state: ScannerState, token: re.Match[str]) -> None:
    start, end = token.span()
    decoded = decode(token.group())
    if decoded.isspace():
        state.out.space(start, end)
    elif not decoded:  # no reference
        state.out.give(token.group(), start, end)
    elif not SILENT.match(decoded):
        state.out.give(decoded, start, end)


HTML_RULES: Final = (
    TokenRule(r"<!--", change(context="-->")),
    TokenRule(
        rf"{_SUP}[0-9]{{1,4}}[ \t]*</sup>", say_as(_visible), rf"{_SUP}[0-9]{{0,4}}[ \t]*(?:<(?:/(?:s(?:up?)?)?)?)?"
    ),
    TokenRule(TAG.pattern, _read_tag, f"{TAG_START.pattern}|{TAG.pattern}"),
    TokenRule(ENTITY.pattern, _decode, ENTITY_START.pattern),
)
