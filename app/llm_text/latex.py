"""LaTeX in a language model's text: only its signs are spoken, not its commands."""

from __future__ import annotations

from typing import Final, Literal

from app.llm_text.cursor import WAIT, Cursor
from app.llm_text.output import Output
from app.llm_text.state import State

_LONGEST_COMMAND: Final = 32
_MATH: Final[dict[str, Literal["inline", "display"]]] = {"(": "inline", "[": "display"}
_SIGNS: Final = {
    "times": "×", "cdot": "·", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "infty": "∞", "sum": "∑", "int": "∫", "sqrt": "√", "alpha": "α", "beta": "β",
    "gamma": "γ", "delta": "δ", "Delta": "Δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Omega": "Ω", "degree": "°", "circ": "°",
}  # fmt: skip


def read_backslash(state: State, cursor: Cursor, out: Output) -> int:
    """Read an escaped character, a delimiter of mathematics, or in mathematics a command."""
    text, at = cursor.text, cursor.at
    if at + 1 == len(text):
        return out.verbatim(text, at, 1) if cursor.final else WAIT
    following = text[at + 1]
    if following in "()[]":
        state.paragraph.math = _MATH.get(following, "")
        return 2
    if following == "\n":
        return 1
    if state.paragraph.math and following.isalpha():
        return _read_command(cursor, out)
    if following.isascii() and not following.isalnum() and not following.isspace():
        if not (state.paragraph.math and following in "{},"):
            out.give(following, at, at + 2)
        return 2
    return out.verbatim(text, at, 1)


def _read_command(cursor: Cursor, out: Output) -> int:
    text, at = cursor.text, cursor.at
    stop = at + 1
    while stop < len(text) and stop - at < _LONGEST_COMMAND and text[stop].isascii() and text[stop].isalpha():
        stop += 1
    if stop == len(text) and not cursor.final and stop - at < _LONGEST_COMMAND:
        return WAIT
    out.give(_SIGNS.get(text[at + 1 : stop], ""), at, stop)
    return max(stop - at, 2)


def read_dollar(state: State, cursor: Cursor, out: Output) -> int:
    """Drop a dollar that delimits mathematics. Keep "$5" and "$PATH"."""
    text, at, paragraph = cursor.text, cursor.at, state.paragraph
    if cursor.may_go_on(2):
        return WAIT
    following, then = text[at + 1 : at + 2], text[at + 2 : at + 3]
    if following == "$":
        paragraph.math = "" if paragraph.math else "display"
        return 2
    if paragraph.math == "inline":
        paragraph.math = ""
        return 1
    # A capital letter alone is a variable; "$PATH" is none.
    variable = following == "\\" or following.islower() or (following.isalpha() and not then.isalnum())
    if variable and not state.previous.isalnum():
        paragraph.math = "inline"
        return 1
    return out.verbatim(text, at, 1)


def read_brace(state: State, cursor: Cursor, out: Output) -> int:
    """Drop a brace in mathematics; say "}{" of a fraction as a slash."""
    if not state.paragraph.math:
        return out.verbatim(cursor.text, cursor.at, 1)
    if cursor.character == "}":
        if cursor.may_go_on(1):
            return WAIT
        if cursor.next == "{":
            out.give("/", cursor.at, cursor.at + 2)
            return 2
    return 1
