"""Beginnings of lines in Markdown: headings, list items, rules, fences, rows of tables. Their text stays."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.cursor import LOOK_AHEAD, WAIT, Cursor
from app.llm_text.output import Output
from app.llm_text.state import State

_HEADING: Final = re.compile(r"#{1,6}(?=[ \t\n])")
_RULE: Final = re.compile(r"([-*_=])(?:[ \t]*\1)*[ \t]*")
_BULLET: Final = re.compile(r"[-+*•‣▪–][ \t]+")
_TASK: Final = re.compile(r"\[[ xX]\][ \t]")
_TASK_START: Final = re.compile(r"\[[ xX]?\]?")
_NUMBER: Final = re.compile(r"\d{1,9}[.)](?=[ \t])")
_NUMBER_START: Final = re.compile(r"\d{1,9}[.)]?")
_TABLE_RULE: Final = re.compile(r"[|\-: \t]+")


def begin_line(state: State, cursor: Cursor, out: Output) -> int:
    """Read the beginning of a line, one mark at a time. Return 0 where its text begins."""
    character = cursor.character
    if character == "\n":
        state.end_paragraph()
        return state.end_line(out, cursor.at)
    if character.isspace() or character == ">":
        return 1
    window = cursor.window
    sure = cursor.final or len(window) == LOOK_AHEAD
    if state.after_bullet:
        if not sure and len(window) < 4 and _TASK_START.fullmatch(window):
            return WAIT
        state.after_bullet = False
        if _TASK.match(window):
            return 3
    count = _begin_block(state, cursor, out, window, sure)
    if not count:
        state.line_start = False
    return count


def _begin_block(state: State, cursor: Cursor, out: Output, window: str, sure: bool) -> int:
    character, at = cursor.character, cursor.at
    if character in "`~":
        return _begin_fence(state, out, window, at, sure)
    if character == "|":
        return _begin_row(state, out, window, at, sure)
    if character in "-*_=+•‣▪–":
        return _begin_item(state, out, window, at, sure)
    if character == "#":
        return _begin_heading(state, out, window, at, sure)
    if character.isdecimal():
        if not sure and _NUMBER_START.fullmatch(window):
            return WAIT
        if _NUMBER.match(window):
            state.break_block(out, at)
    return 0


def _begin_heading(state: State, out: Output, window: str, at: int, sure: bool) -> int:
    if not sure and window.strip("#") == "" and len(window) <= 6:
        return WAIT
    heading = _HEADING.match(window)
    if heading is None:
        return 0
    state.break_block(out, at)
    state.heading, state.line_start = True, False
    return heading.end()


def _begin_item(state: State, out: Output, window: str, at: int, sure: bool) -> int:
    """Read a rule, or the bullet of a list item; 0 if it is neither."""
    rule = _RULE.match(window)
    if rule is not None:
        rest = window[rule.end() : rule.end() + 1]
        if not rest and not sure:
            return WAIT
        marks = rule.end() - sum(map(str.isspace, rule.group()))
        if rest in ("", "\n", "\r") and marks >= 3:
            state.break_block(out, at)
            return rule.end()
    elif len(window) == 1 and not sure:
        return WAIT
    bullet = _BULLET.match(window)
    if bullet is None:
        return 0
    state.break_block(out, at)
    state.after_bullet = True
    return bullet.end()


def _begin_fence(state: State, out: Output, window: str, at: int, sure: bool) -> int:
    run = len(window) - len(window.lstrip(window[0]))
    line, newline, _ = window.partition("\n")
    if run < 3 and (run < len(window) or sure):
        return 0
    if run >= 3 and "`" in line[run:] and window[0] == "`":  # code within a line
        return 0
    if not newline and not sure:
        return WAIT
    state.break_block(out, at)
    if state.announcement:
        out.give(state.announcement, at, at + run)
        state.break_block(out, at + run)
    state.fence = window[:run]
    state.in_code_line = not newline
    return len(line) + len(newline)


def _begin_row(state: State, out: Output, window: str, at: int, sure: bool) -> int:
    line, newline, _ = window.partition("\n")
    rule = _TABLE_RULE.match(line)
    length = rule.end() if rule else 0
    if length == len(line):
        return length + len(newline) if newline or sure else WAIT
    state.break_block(out, at)
    state.table, state.line_start = True, False
    return len(line) - len(line.lstrip("| \t"))
