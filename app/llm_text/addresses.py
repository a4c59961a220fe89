"""Web addresses and the destinations of links. Only the host of an address in the text is spoken."""

from __future__ import annotations

import re

from app.llm_text.characters import NOT_AFTER_WORD
from app.llm_text.scanner import Mode, Rule, beginnings, drop, go_to, say
from app.llm_text.state import State

_TAIL = r"[^\s<>\[\]()\"'.,;:!?*|`。，！？、]+"


def _open_parenthesis(state: State, token: re.Match[str]) -> None:
    state.context, state.depth = "parenthesis", 1


def _count_parenthesis(state: State, token: re.Match[str]) -> None:
    state.depth += 1 if token.group() == "(" else -1
    if not state.depth:
        state.context = "path" if state.context == "parenthesis" else "text"


def begin_destination(state: State, token: re.Match[str]) -> None:
    """Drop the parenthesis that begins a link's destination. All until its end is dropped."""
    state.context, state.depth = "destination", 1


ADDRESS_RULES = (
    Rule(r"<(?=(?i:https?://))", drop, beginnings("<https://", "<http://")),
    # "www." is not spoken either.
    Rule(
        rf"{NOT_AFTER_WORD}(?i:(?:https?|ftp)://(?:www\.)?|www\.)",
        go_to("host"),
        rf"{NOT_AFTER_WORD}{beginnings('https://www.', 'http://www.', 'ftp://www.', 'www.')}",
    ),
)
HOST = Mode(
    Rule(r"[\w\-]+|[.:@](?=\w)", say, r"[.:@]"),
    Rule(r"[/?#]", go_to("path")),
    Rule(r">?", go_to("text")),
)
# Punctuation belongs to an address if more of it follows.
_PATH_RULES = (
    Rule(rf"{_TAIL}|[.,;:!?*']+(?={_TAIL})", drop, r"[.,;:!?*']+"),
    Rule(r">?", go_to("text")),
)
PATH = Mode(Rule(r"\(", _open_parenthesis), *_PATH_RULES)
PARENTHESIS = Mode(Rule(r"[()]", _count_parenthesis), *_PATH_RULES)
DESTINATION = Mode(
    Rule(r"[()]", _count_parenthesis),
    Rule(r"[^()\n]+", drop),
    Rule("", go_to("text")),
)
