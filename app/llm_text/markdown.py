"""Markdown: beginnings of lines, fenced code, and text within a line.

Neither fenced code nor the marks are spoken. The text of headings, list items, quotes and tables stays.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from app.llm_text.addresses import ADDRESS_MODES, ADDRESS_RULES
from app.llm_text.html import HTML_RULES, SILENT_PARTS
from app.llm_text.latex import LATEX_RULES, MATH_RULES
from app.llm_text.scanner import (
    AFTER_WORD,
    LOOK_AHEAD,
    NOT_AFTER_WORD,
    SILENT,
    WORD,
    Action,
    Mode,
    Rule,
    State,
    break_block,
    change,
    drop,
    say,
    space,
)

# Lines


def _end_line(state: State, token: re.Match[str]) -> None:
    at = token.start()
    state.out.newline(at)
    if state.line:
        state.line = ""
        state.out.break_block(at + 1)
    if state.math == "inline":
        state.math = ""
    state.context = "line"


def _end_paragraph(state: State, token: re.Match[str]) -> None:
    state.code, state.math = 0, ""
    _end_line(state, token)


def _begin(line: Literal["", "heading", "row"]) -> Action:
    def action(state: State, token: re.Match[str]) -> None:
        state.break_block(token.start())
        state.context, state.line = "text", line

    return action


def _open_fence(state: State, token: re.Match[str]) -> None:
    start, end = token.span("fence")
    state.break_block(start)
    if state.announcement:
        state.out.give(state.announcement, start, end)
        state.out.break_block(end)
    state.context, state.fence = "fenced code", token["fence"]


def _close_fence(state: State, token: re.Match[str]) -> None:
    if token["fence"].startswith(state.fence):
        state.context = "line"


_BULLET: Final = "[-+*•‣▪–]"
_LINE: Final = Mode(
    Rule(r"\n", _end_paragraph),
    # Indentation and quotes; where the links of references lead
    Rule(r"(?:[^\S\n]|>(?![\d$€£]))+", drop, r"(?:[^\S\n]|>)+"),
    Rule(
        r"\[[^\]\n]{1,80}\]:[ \t]{1,8}(?=<?https?://)",
        change(context="destination", depth=1, length=0),
        r"\[[^\]\n]{0,80}(?:\]:?[ \t]{0,8}<?[htps:/]{0,8})?",
    ),
    # Fences of code
    Rule(
        r"(?P<fence>`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,7}(?!~))[^\n]*(?:\n|\Z)",
        _open_fence,
        r"`{1,2}|`{3,}[^`\n]*|~{1,2}|~{3,}[^\n]*",
    ),
    # Tables: the line of dashes, other rows
    Rule(r"\|[|\-: \t]*(?:\n|\Z)", drop, r"\|[|\-: \t]*"),
    Rule(r"\|[| \t]*", _begin("row")),
    # Thematic breaks, underlines of headings
    Rule(
        r"(?P<mark>[-*_=~])(?:[ \t]*(?P=mark)){2,}[ \t]*(?=[\r\n]|\Z)",
        break_block,
        r"(?P<begun>[-*_=~])(?:[ \t]*(?P=begun))*[ \t]*",
    ),
    # Items of lists, with a box to tick or without; headings; numbered items
    Rule(rf"{_BULLET}[ \t]+(?:\[[ xX]\][ \t])?", break_block, rf"{_BULLET}(?:[ \t]+(?:\[(?:[ xX]\]?)?)?)?"),
    Rule(r"#{1,6}(?=[ \t\n])", _begin("heading"), r"#{1,6}"),
    Rule(r"(?=\d{1,9}[.)][ \t])", _begin(""), r"\d{1,9}[.)]?"),
    Rule("", change(context="text")),
)
_FENCED_CODE: Final = Mode(
    Rule(
        r"(?<=\n)[ \t>\r]*(?P<fence>`{3,}|~{3,})[ \t>\r]*(?:\n|\Z)",
        _close_fence,
        r"(?<=\n)[ \t>\r]*(?:`*|~*)[ \t>\r]*",
    ),
    Rule(r"[^\n]*\n|[^\n]+", drop),
)

# Text within a line


def _read_backticks(state: State, token: re.Match[str]) -> None:
    run = len(token.group())
    if run < LOOK_AHEAD and state.code in (0, run):
        state.code = run - state.code
    else:
        say(state, token)


def _close_heading(state: State, token: re.Match[str]) -> None:
    if state.line != "heading":
        say(state, token)


def _read_bar(state: State, token: re.Match[str]) -> None:
    """Say the bar between two cells of a table as a comma."""
    if state.line == "row":
        state.out.comma(token.start(), token.end())
    else:
        say(state, token)


def _say_visible(state: State, token: re.Match[str]) -> None:
    if not SILENT.match(token.string, token.start()):
        say(state, token)


# Words that cannot begin an address, and the plain marks between them: most of a text in few steps.
_MORE_WORDS: Final = rf"(?:(?:[,.;:'’-] ?| )(?![hHwWfF]){WORD})*"
_CITATION: Final = r"\[(?:\d{1,3}|\^[^\]\n]{0,40})\]"
_CITATION_BEGUN: Final = r"\[(?:\d{0,3}|\^[^\]\n]{0,40})\]?"
_IMAGE: Final = rf"{NOT_AFTER_WORD}(?<![!?.)\]\"'”’])!"
_GAP: Final = r"[\u00a0\u2007\u2009\u202f]"  # a space between groups of digits, behind a minus, around a slash of units
_ALSO_IN_CODE: Final = (
    Rule(rf"(?<=[\d−]){_GAP}(?=\d)|(?<=\w){_GAP}(?=/)|(?<=/){_GAP}(?=\w)", say, rf"(?<=[\w−/]){_GAP}"),
    Rule(r"[^\S\n]+", space),
    Rule(r"\n", _end_line),
    Rule(r"`+", _read_backticks, r"`+"),
)
_OTHER: Final = Rule(r".", _say_visible)
_TEXT: Final = (
    Rule(rf"(?![hHwWfF]){WORD}{_MORE_WORDS}", say),
    *ADDRESS_RULES,
    Rule(WORD + _MORE_WORDS, say),
    # Plain marks, and Indic scripts: to `re` a vowel sign is no part of a word
    Rule(r"[-,.;:?'\"()/]+|[\u0900-\u0fff]+", say),
    *_ALSO_IN_CODE,
    # Emphasis, after what is none: "2*3", "snake_case", a mark between spaces
    Rule(rf"(?<=\d)\*+(?=\d)|{AFTER_WORD}_+(?=[^\W_])|(?<=\s)[*_](?=\s|\Z)", say, r"\*+|_+"),
    Rule(r"\*+|_+|(?<!~)~~(?!~)", drop, r"(?<!~)~~?"),
    # Brackets: a link's end and its destination, citation numbers, a link's reference, images
    Rule(rf"(?:{_CITATION}|\])\(", change(context="destination", depth=1, length=0)),
    Rule(rf"{_CITATION}:?|\]\[[^\]\n]*\]", drop, rf"{_CITATION_BEGUN}|\](?:\[[^\]\n]*)?"),
    Rule(rf"{AFTER_WORD}\[", space),
    Rule(rf"{_IMAGE}(?=\[)", drop, _IMAGE),
    # The closing marks of a heading, cells of a table
    Rule(r"(?<=[^\S\n])#+(?=[\r\n]|\Z)", _close_heading, r"(?<=[^\S\n])#+"),
    Rule(r"\|", _read_bar),
    *HTML_RULES,
    *LATEX_RULES,
    _OTHER,
)

MODES: Final[dict[str, Mode]] = {
    "line": _LINE,
    "fenced code": _FENCED_CODE,
    "text": Mode(*_TEXT),
    "math": Mode(*MATH_RULES, *_TEXT),
    "code": Mode(Rule(WORD, say), *_ALSO_IN_CODE, _OTHER),
    **ADDRESS_MODES,
    **SILENT_PARTS,
}
"""All modes by name."""
