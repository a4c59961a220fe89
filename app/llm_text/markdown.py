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
    ScannerState,
    TokenRule,
    break_block,
    change,
    drop,
    say,
    space,
)

# Lines


def _end_line(state: ScannerState, token: re.Match[str]) -> None:
    at = token.start()
    state.out.newline(at)
    if state.line:
        state.line = ""
        state.out.break_block(at + 1)
    if state.math == "inline":
        state.math = ""
    state.context = "line"


def _end_paragraph(state: ScannerState, token: re.Match[str]) -> None:
    state.code, state.math = 0, ""
    _end_line(state, token)


def _begin(line: Literal["", "heading", "row"]) -> Action:
    def action(state: ScannerState, token: re.Match[str]) -> None:
        state.break_block(token.start())
        state.context, state.line = "text", line

    return action


def _open_fence(state: ScannerState, token: re.Match[str]) -> None:
    start, end = token.span("fence")
    state.break_block(start)
    if state.announcement:
        state.out.give(state.announcement, start, end)
        state.out.break_block(end)
    state.context, state.fence = "fenced code", token["fence"]


def _close_fence(state: ScannerState, token: re.Match[str]) -> None:
    if token["fence"].startswith(state.fence):
        state.context = "line"


_BULLET: Final = "[-+*•‣▪–]"
_LINE: Final = Mode(
    TokenRule(r"\n", _end_paragraph),
    # Indentation and quotes; where the links of references lead
    TokenRule(r"(?:[^\S\n]|>(?![\d$€£]))+", drop, r"(?:[^\S\n]|>)+"),
    TokenRule(
        r"\[[^\]\n]{1,80}\]:[ \t]{1,8}(?=<?https?://)",
        change(context="destination", depth=1, length=0),
        r"\[[^\]\n]{0,80}(?:\]:?[ \t]{0,8}<?[htps:/]{0,8})?",
    ),
    # Fences of code
    TokenRule(
        r"(?P<fence>`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,7}(?!~))[^\n]*(?:\n|\Z)",
        _open_fence,
        r"`{1,2}|`{3,}[^`\n]*|~{1,2}|~{3,}[^\n]*",
    ),
    # Tables: the line of dashes, other rows
    TokenRule(r"\|[|\-: \t]*(?:\n|\Z)", drop, r"\|[|\-: \t]*"),
    TokenRule(r"\|[| \t]*", _begin("row")),
    # Thematic breaks, underlines of headings
    TokenRule(
        r"(?P<mark>[-*_=~])(?:[ \t]*(?P=mark)){2,}[ \t]*(?=[\r\n]|\Z)",
        break_block,
        r"(?P<begun>[-*_=~])(?:[ \t]*(?P=begun))*[ \t]*",
    ),
    # Items of lists, with a box to tick or without; headings; numbered items
    TokenRule(rf"{_BULLET}[ \t]+(?:\[[ xX]\][ \t])?", break_block, rf"{_BULLET}(?:[ \t]+(?:\[(?:[ xX]\]?)?)?)?"),
    TokenRule(r"#{1,6}(?=[ \t\n])", _begin("heading"), r"#{1,6}"),
    TokenRule(r"(?=\d{1,9}[.)][ \t])", _begin(""), r"\d{1,9}[.)]?"),
    TokenRule("", change(context="text")),
)
_FENCED_CODE: Final = Mode(
    TokenRule(
        r"(?<=\n)[ \t>\r]*(?P<fence>`{3,}|~{3,})[ \t>\r]*(?:\n|\Z)",
        _close_fence,
        r"(?<=\n)[ \t>\r]*(?:`*|~*)[ \t>\r]*",
    ),
    TokenRule(r"[^\n]*\n|[^\n]+", drop),
)

# Text within a line


def _read_backticks(state: ScannerState, token: re.Match[str]) -> None:
    run = len(token.group())
    if run < LOOK_AHEAD and state.code in (0, run):
        state.code = run - state.code
    else:
        say(state, token)


def _close_heading(state: ScannerState, token: re.Match[str]) -> None:
    if state.line != "heading":
        say(state, token)


def _read_bar(state: ScannerState, token: re.Match[str]) -> None:
    """Say the bar between two cells of a table as a comma."""
    if state.line == "row":
        state.out.comma(token.start(), token.end())
    else:
        say(state, token)


def _say_visible(state: ScannerState, token: re.Match[str]) -> None:
    if not SILENT.match(token.string, token.start()):
        say(state, token)


# Words that cannot begin an address, and the plain marks between them: most of a text in few steps.
_MORE_WORDS: Final = rf"(?:(?:[,.;:'’-] ?| )(?![hHwWfF]){WORD})*"
_CITATION: Final = r"\[(?:\d{1,3}|\^[^\]\n]{0,40})\]"
_CITATION_BEGUN: Final = r"\[(?:\d{0,3}|\^[^\]\n]{0,40})\]?"
_IMAGE: Final = rf"{NOT_AFTER_WORD}(?<![!?.)\]\"'”’])!"
_GAP: Final = r"[\u00a0\u2007\u2009\u202f]"  # a space between groups of digits, behind a minus, around a slash of units
_ALSO_IN_CODE: Final = (
    TokenRule(rf"(?<=[\d−]){_GAP}(?=\d)|(?<=\w){_GAP}(?=/)|(?<=/){_GAP}(?=\w)", say, rf"(?<=[\w−/]){_GAP}"),
    TokenRule(r"[^\S\n]+", space),
    TokenRule(r"\n", _end_line),
    TokenRule(r"`+", _read_backticks, r"`+"),
)
_OTHER: Final = TokenRule(r".", _say_visible)
_TEXT: Final = (
    TokenRule(rf"(?![hHwWfF]){WORD}{_MORE_WORDS}", say),
    *ADDRESS_RULES,
    TokenRule(WORD + _MORE_WORDS, say),
    # Plain marks, and Indic scripts: to `re` a vowel sign is no part of a word
    TokenRule(r"[-,.;:?'\"()/]+|[\u0900-\u0fff]+", say),
    *_ALSO_IN_CODE,
    # Emphasis, after what is none: "2*3", "snake_case", a mark between spaces
    TokenRule(rf"(?<=\d)\*+(?=\d)|{AFTER_WORD}_+(?=[^\W_])|(?<=\s)[*_](?=\s|\Z)", say, r"\*+|_+"),
    TokenRule(r"\*+|_+|(?<!~)~~(?!~)", drop, r"(?<!~)~~?"),
    # Brackets: a link's end and its destination, citation numbers, a link's reference, images
    TokenRule(rf"(?:{_CITATION}|\])\(", change(context="destination", depth=1, length=0)),
    TokenRule(rf"{_CITATION}:?|\]\[[^\]\n]*\]", drop, rf"{_CITATION_BEGUN}|\](?:\[[^\]\n]*)?"),
    TokenRule(rf"{AFTER_WORD}\[", space),
    TokenRule(rf"{_IMAGE}(?=\[)", drop, _IMAGE),
    # The closing marks of a heading, cells of a table
    TokenRule(r"(?<=[^\S\n])#+(?=[\r\n]|\Z)", _close_heading, r"(?<=[^\S\n])#+"),
    TokenRule(r"\|", _read_bar),
    *HTML_RULES,
    *LATEX_RULES,
    _OTHER,
)

MODES: Final[dict[str, Mode]] = {
    "line": _LINE,
    "fenced code": _FENCED_CODE,
    "text": Mode(*_TEXT),
    "math": Mode(*MATH_RULES, *_TEXT),
    "code": Mode(TokenRule(WORD, say), *_ALSO_IN_CODE, _OTHER),
    **ADDRESS_MODES,
    **SILENT_PARTS,
}
"""All modes by name."""
