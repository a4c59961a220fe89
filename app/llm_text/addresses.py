"""Web addresses and the destinations of links. Only the host of an address in the text is spoken."""

from __future__ import annotations

import re

from app.llm_text.scanner import Mode, Rule, beginnings, drop, say
from app.llm_text.state import State

_TAIL = r"[^\s<>\[\]()\"'.,;:!?*|`。，！？、]+"


def _begin_host(state: State, token: re.Match[str]) -> None:
    state.context = "host"


def _begin_path(state: State, token: re.Match[str]) -> None:
    state.context = "path"


def _end_address(state: State, token: re.Match[str]) -> None:
    state.context = "text"


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
        r"(?<![^\W_])(?i:(?:https?|ftp)://(?:www\.)?|www\.)",
        _begin_host,
        rf"(?<![^\W_]){beginnings('https://www.', 'http://www.', 'ftp://www.', 'www.')}",
    ),
)
HOST = Mode(
    Rule(r"[\w\-]+|[.:@](?=\w)", say, r"[.:@]"),
    Rule(r"[/?#]", _begin_path),
    Rule(r">?", _end_address),
)
# Punctuation belongs to an address if more of it follows.
_PATH_RULES = (
    Rule(rf"{_TAIL}|[.,;:!?*']+(?={_TAIL})", drop, r"[.,;:!?*']+"),
    Rule(r">?", _end_address),
)
PATH = Mode(Rule(r"\(", _open_parenthesis), *_PATH_RULES)
PARENTHESIS = Mode(Rule(r"[()]", _count_parenthesis), *_PATH_RULES)
DESTINATION = Mode(
    Rule(r"[()]", _count_parenthesis),
    Rule(r"[^()\n]+", drop),
    Rule("", _end_address),
)
