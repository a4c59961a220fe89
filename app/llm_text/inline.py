"""Text within a line of Markdown: words, emphasis, code, links, pictographs."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.addresses import ADDRESS_RULES, begin_destination
from app.llm_text.characters import AFTER_WORD, NOT_AFTER_WORD, SILENT, WORD
from app.llm_text.html import HTML_RULES
from app.llm_text.latex import LATEX_RULES, MATH_RULES
from app.llm_text.scanner import LOOK_AHEAD, Mode, Rule, drop, say, space
from app.llm_text.state import State


def _end_line(state: State, token: re.Match[str]) -> None:
    state.end_line(token.start())


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


# Words that cannot begin an address, and the plain marks between them: most of a text in few steps.
_MORE_WORDS: Final = rf"(?:(?:[,.;:'’-] ?| )(?![hHwWfF]){WORD})*"
_EMPHASIS: Final = (
    # "2*3", "snake_case", marks between spaces
    Rule(rf"(?<=\s)[*_](?=\s|\Z)|(?<=\d)\*+(?=\d)|{AFTER_WORD}_+(?=[^\W_])", say, r"\*+|_+"),
    Rule(r"\*+|_+|(?<!~)~~(?!~)", drop, r"(?<!~)~~?"),
)
_IMAGE: Final = rf"{NOT_AFTER_WORD}(?<![!?.)\]\"'”’])!"
_CITATION: Final = r"\[(?:\d{1,3}|\^[^\]\n]{0,40})\]"
_CITATION_START: Final = r"\[(?:\d{0,3}|\^[^\]\n]{0,40})\]?"
_BRACKETS: Final = (
    Rule(rf"(?:{_CITATION}|\])\(", begin_destination),
    Rule(rf"{_CITATION}:?|\]\[[^\]\n]*\]", drop, rf"{_CITATION_START}|\](?:\[[^\]\n]*)?"),
    Rule(rf"{AFTER_WORD}\[", space),
    Rule(rf"{_IMAGE}(?=\[)", drop, _IMAGE),
)
_ANY_LINE: Final = (
    Rule(r"\n", _end_line),
    Rule(r"`+", _read_backticks, r"`+"),
    Rule(r"[^\S\n]+", space),
    Rule(SILENT, drop),
    Rule(r".", say),
)
_TEXT: Final = (
    Rule(rf"(?![hHwWfF]){WORD}{_MORE_WORDS}", say),
    *ADDRESS_RULES,
    Rule(WORD + _MORE_WORDS, say),
    Rule(r"[\u0900-\u0fff]+", say),  # Indic scripts: to `re` a vowel sign is no part of a word
    *_EMPHASIS,
    *_BRACKETS,
    *HTML_RULES,
    *LATEX_RULES,
    Rule(r"(?<=[^\S\n])#+(?=[\r\n]|\Z)", _close_heading, r"(?<=[^\S\n])#+"),
    Rule(r"\|", _read_bar),
    *_ANY_LINE,
)
TEXT: Final = Mode(*_TEXT)
MATH: Final = Mode(*MATH_RULES, *_TEXT)
CODE: Final = Mode(Rule(WORD, say), *_ANY_LINE)
