"""Text within a line: words, emphasis, code, links, and the marks of HTML and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from app.llm_text.addresses import Address, scheme_length
from app.llm_text.cursor import LOOK_AHEAD, WAIT, Cursor
from app.llm_text.html import read_angle, read_entity, read_tag
from app.llm_text.latex import read_backslash, read_brace, read_dollar
from app.llm_text.output import Output
from app.llm_text.state import State

# A word, and the plain words after it that cannot begin an address: most of a text in few steps.
_WORDS: Final = re.compile(r"[^\W_]+(?: [^\W_hHwWfF][^\W_]*)*")
_CODE: Final = re.compile(r"[^`\n]+")
_CITATION: Final = re.compile(r"\[(?:\d{1,3}|\^[^\]\n]{0,40})(?=\])")
_CITATION_START: Final = re.compile(r"\[(?:\d{0,3}|\^[^\]\n]{0,40})$")


def read_inline(state: State, cursor: Cursor, out: Output) -> int:
    """Read what stands at the cursor within a line."""
    text, at = cursor.text, cursor.at
    character = text[at]
    if character == "\n":
        return state.end_line(out, at)
    if character == "`":
        return _read_backticks(state, cursor, out)
    if state.paragraph.code:
        code = _CODE.match(text, at)
        return out.verbatim(text, at, code.end() - at if code else 1)
    if character.isalnum():
        return _read_words(state, cursor, out)
    if character.isspace():
        out.space(at, at + 1)
        return 1
    rule = _RULES.get(character)
    return rule(state, cursor, out) if rule is not None else out.verbatim(text, at, 1)


def _read_words(state: State, cursor: Cursor, out: Output) -> int:
    text, at = cursor.text, cursor.at
    if not state.previous.isalnum():
        scheme = scheme_length(text, at, cursor.final)
        if scheme:
            state.address = Address() if scheme > 0 else None
            return scheme
    words = _WORDS.match(text, at)
    return out.verbatim(text, at, words.end() - at if words else 1)


def _read_backticks(state: State, cursor: Cursor, out: Output) -> int:
    run, paragraph = cursor.run, state.paragraph
    if run < LOOK_AHEAD and cursor.may_go_on(run):
        return WAIT
    if run < LOOK_AHEAD and paragraph.code in (0, run):
        paragraph.code = run - paragraph.code
        return run
    return out.verbatim(cursor.text, cursor.at, run)


def _read_emphasis(state: State, cursor: Cursor, out: Output) -> int:
    run, math = cursor.run, state.paragraph.math
    if run == LOOK_AHEAD:
        return run
    if cursor.may_go_on(run):
        return WAIT
    after = cursor.text[cursor.at + run : cursor.at + run + 1] or " "
    if _is_literal(cursor.character, run, state.previous, after, math=bool(math)):
        return out.verbatim(cursor.text, cursor.at, run)
    if math and cursor.character == "_":
        out.space(cursor.at, cursor.at + run)
    return run


def _is_literal(mark: str, run: int, before: str, after: str, *, math: bool) -> bool:
    """Return whether a run of "*", "_" or "~" is no emphasis: "2*3", "snake_case", "~5"."""
    if mark == "~":
        return run != 2
    if before.isspace() and after.isspace():
        return run == 1
    if mark == "*":
        return before.isdigit() and after.isdigit()
    return before.isalnum() and after.isalnum() and not math


def _read_number_sign(state: State, cursor: Cursor, out: Output) -> int:
    """Drop the number signs that close a heading."""
    if not (state.heading and out.in_gap):
        return out.verbatim(cursor.text, cursor.at, 1)
    window = cursor.window
    rest = window.lstrip("#")
    if not rest and not cursor.final and len(window) < LOOK_AHEAD:
        return WAIT
    return 1 if rest[:1] in ("", "\n", "\r", "#") else out.verbatim(cursor.text, cursor.at, 1)


def _read_bar(state: State, cursor: Cursor, out: Output) -> int:
    """Say the bar between two cells of a table as a comma."""
    if not state.table:
        return out.verbatim(cursor.text, cursor.at, 1)
    out.comma(cursor.at, cursor.at + 1)
    return 1


def _read_exclamation(state: State, cursor: Cursor, out: Output) -> int:
    """Drop the exclamation mark that begins an image."""
    if not (state.previous.isalnum() or state.previous in "!?.)]\"'”’"):
        if cursor.may_go_on(1):
            return WAIT
        if cursor.next == "[":
            return 1
    return out.verbatim(cursor.text, cursor.at, 1)


def _open_bracket(state: State, cursor: Cursor, out: Output) -> int:
    """Drop an opening bracket; with it the number of a citation."""
    window, brackets = cursor.window, state.paragraph.brackets
    if not cursor.final and len(window) < LOOK_AHEAD and _CITATION_START.fullmatch(window):
        return WAIT
    citation = _CITATION.match(window)
    if len(brackets) < LOOK_AHEAD:
        brackets.append(citation is not None)
    if citation is not None:
        return citation.end()
    if state.previous.isalnum():
        out.space(cursor.at, cursor.at + 1)
    return 1


def _close_bracket(state: State, cursor: Cursor, out: Output) -> int:
    """Drop a closing bracket, and begin the destination of a link."""
    paragraph = state.paragraph
    if not paragraph.brackets:
        return 1
    if cursor.may_go_on(1):
        return WAIT
    is_citation = paragraph.brackets.pop()
    following = cursor.next
    if following in ("(", "["):
        paragraph.destination, paragraph.reference = int(following == "("), following == "["
        paragraph.destination_length = 0
        return 2
    return 2 if is_citation and following == ":" else 1


_RULES: Final[dict[str, Callable[[State, Cursor, Output], int]]] = {
    **dict.fromkeys("*_~", _read_emphasis),
    **dict.fromkeys("{}", read_brace),
    "#": _read_number_sign,
    "|": _read_bar,
    "!": _read_exclamation,
    "[": _open_bracket,
    "]": _close_bracket,
    "<": read_tag,
    ">": read_angle,
    "&": read_entity,
    "\\": read_backslash,
    "$": read_dollar,
}
"""Rules by character. Other characters are spoken as they are."""
