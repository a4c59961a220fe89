"""Web addresses and the destinations of links. Only the host of an address in the text is spoken."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import NOT_AFTER_WORD, Mode, Rule, State, beginnings, change, drop, say, space

_PART: Final = r"[^\s<>\[\]()\"'.,;:!?*|`。，！？、]+"
# Characters of a destination without its end, after which the text behind a space is spoken again.
_LONGEST_DESTINATION: Final = 2048


def _count_parenthesis(state: State, token: re.Match[str]) -> None:
    state.depth += 1 if token.group() == "(" else -1
    if not state.depth:
        state.context = "path" if state.context == "parenthesis" else "text"


def _skip(state: State, token: re.Match[str]) -> None:
    state.length += 1
    if state.length > _LONGEST_DESTINATION and token.group().isspace():
        space(state, token)
        state.context = "text"


ADDRESS_RULES: Final = (
    Rule(r"<(?=(?i:https?://))", drop, beginnings("<https://", "<http://")),
    # "www." is not spoken either.
    Rule(
        rf"{NOT_AFTER_WORD}(?i:(?:https?|ftp)://(?:www\.)?|www\.)",
        change(context="host"),
        NOT_AFTER_WORD + beginnings("https://www.", "http://www.", "ftp://www.", "www."),
    ),
)
# Punctuation belongs to an address if more of it follows.
_PATH: Final = (
    Rule(rf"{_PART}|[.,;:!?*']+(?={_PART})", drop, r"[.,;:!?*']+"),
    Rule(r">?", change(context="text")),
)
ADDRESS_MODES: Final = {
    "host": Mode(
        Rule(r"[\w\-]+|[.:@](?=\w)", say, r"[.:@]"),
        Rule(r"[/?#]", change(context="path")),
        Rule(r">?", change(context="text")),
    ),
    "path": Mode(Rule(r"\(", change(context="parenthesis", depth=1)), *_PATH),
    "parenthesis": Mode(Rule(r"[()]", _count_parenthesis), *_PATH),
    "destination": Mode(
        Rule(r"[()]", _count_parenthesis),
        Rule(r"[^\n]", _skip),
        Rule("", change(context="text")),
    ),
}
