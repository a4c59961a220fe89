"""Beginnings of lines in Markdown, and fenced code. Code is not spoken; the text of other blocks stays."""

from __future__ import annotations

import re

from app.llm_text.scanner import Mode, Rule, break_block, drop, go_to
from app.llm_text.state import State

_BULLET = "[-+*•‣▪–]"


def _end_paragraph(state: State, token: re.Match[str]) -> None:
    state.end_paragraph()
    state.end_line(token.start())


def _begin_number(state: State, token: re.Match[str]) -> None:
    state.break_block(token.start())
    state.context = "text"


def _begin_heading(state: State, token: re.Match[str]) -> None:
    _begin_number(state, token)
    state.line = "heading"


def _begin_row(state: State, token: re.Match[str]) -> None:
    _begin_number(state, token)
    state.line = "row"


def _open_fence(state: State, token: re.Match[str]) -> None:
    state.break_block(token.start())
    mark = token.group()[0]
    count = len(token.group()) - len(token.group().lstrip(mark))
    if state.announcement:
        state.out.give(state.announcement, token.start(), token.start() + count)
        state.out.break_block(token.start() + count)
    state.context, state.fence = "fenced code", mark * count


def _close_fence(state: State, token: re.Match[str]) -> None:
    if token["closing"].startswith(state.fence):
        state.context = "line"


LINE = Mode(
    Rule(r"\n", _end_paragraph),
    Rule(r"(?:[^\S\n]|>)+", drop),  # indentation and marks of quotes
    Rule(r"(?:`{3,}[^`\n]*|~{3,}[^\n]*)(?:\n|\Z)", _open_fence, r"`{1,2}|`{3,}[^`\n]*|~{1,2}|~{3,}[^\n]*"),
    Rule(r"\|[|\-: \t]*(?:\n|\Z)", drop, r"\|[|\-: \t]*"),  # the rule of a table
    Rule(r"\|[| \t]*", _begin_row),
    Rule(
        r"(?P<mark>[-*_=])(?:[ \t]*(?P=mark)){2,}[ \t]*(?=[\r\n]|\Z)",
        break_block,
        r"(?P<begun>[-*_=])(?:[ \t]*(?P=begun))*[ \t]*",
    ),
    Rule(rf"{_BULLET}[ \t]+(?:\[[ xX]\][ \t])?", break_block, rf"{_BULLET}(?:[ \t]+(?:\[(?:[ xX]\]?)?)?)?"),
    Rule(r"#{1,6}(?=[ \t\n])", _begin_heading, r"#{1,6}"),
    Rule(r"(?=\d{1,9}[.)][ \t])", _begin_number, r"\d{1,9}[.)]?"),
    Rule("", go_to("text")),
)
FENCED_CODE = Mode(
    Rule(
        r"(?<=\n)[ \t>\r]*(?P<closing>`{3,}|~{3,})[ \t>\r]*(?:\n|\Z)",
        _close_fence,
        r"(?<=\n)[ \t>\r]*(?:`*|~*)[ \t>\r]*",
    ),
    Rule(r"[^\n]*\n|[^\n]+", drop),
)
