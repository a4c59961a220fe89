"""Web addresses and the destinations of links. Only the host of an address in the text is spoken."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import NOT_AFTER_WORD, Mode, ScannerState, TokenRule, beginnings, change, drop, say, space

_PART: Final = r"[^\s<>\[\]()\"'.,;:!?*|`。，！？、]+"
# Characters of a destination without its end, after which the text behind a space is spoken again.
_MAX_DESTINATION_CHARACTERS: Final = 2048


def _count_parenthesis(state: ScannerState, token: re.Match[str]) -> None:
    state.depth += 1 if token.group() == "(" else -1
    if not state.depth:
        state.context = "path" if state.context == "parenthesis" else "text"


def _skip(state: ScannerState, token: re.Match[str]) -> None:
    state.length += 1
    if state.length > _MAX_DESTINATION_CHARACTERS and token.group().isspace():
        space(state, token)
        state.context = "text"


ADDRESS_RULES: Final = (
    TokenRule(r"<(?=(?i:https?://))", drop, beginnings("<https://", "<http://")),
    # "www." is not spoken either.
    TokenRule(
        rf"{NOT_AFTER_WORD}(?i:(?:https?|ftp)://(?:www\.)?|www\.)",
        change(context="host"),
        NOT_AFTER_WORD + beginnings("https://www.", "http://www.", "ftp://www.", "www."),
    ),
)
# Punctuation belongs to an address if more of it follows.
_PATH: Final = (
    TokenRule(rf"{_PART}|[.,;:!?*']+(?={_PART})", drop, r"[.,;:!?*']+"),
    TokenRule(r">?", change(context="text")),
)
ADDRESS_MODES: Final = {
    "host": Mode(
        TokenRule(r"[\w\-]+|[.:@](?=\w)", say, r"[.:@]"),
        TokenRule(r"[/?#]", change(context="path")),
        TokenRule(r">?", change(context="text")),
    ),
    "path": Mode(TokenRule(r"\(", change(context="parenthesis", depth=1)), *_PATH),
    "parenthesis": Mode(TokenRule(r"[()]", _count_parenthesis), *_PATH),
    "destination": Mode(
        TokenRule(r"[()]", _count_parenthesis),
        TokenRule(r"[^\n]", _skip),
        TokenRule("", change(context="text")),
    ),
}
