"""LaTeX in a language model's text: only its signs are spoken, not its commands."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import Rule, drop
from app.llm_text.state import State

_SIGNS: Final = {
    "times": "×", "cdot": "·", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "infty": "∞", "sum": "∑", "int": "∫", "sqrt": "√", "alpha": "α", "beta": "β",
    "gamma": "γ", "delta": "δ", "Delta": "Δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Omega": "Ω", "degree": "°", "circ": "°",
}  # fmt: skip


def _delimit(state: State, token: re.Match[str]) -> None:
    match token.group():
        case r"\(":
            state.math = "inline"
        case r"\[":
            state.math = "display"
        case "$$":
            state.math = "" if state.math else "display"
        case "$" if not state.math:
            state.math = "inline"
        case "$" if state.math == "display":
            state.out.give("$", token.start(), token.end())
        case _:
            state.math = ""


def _say_command(state: State, token: re.Match[str]) -> None:
    state.out.give(_SIGNS.get(token.group()[1:], ""), token.start(), token.end())


def _say_slash(state: State, token: re.Match[str]) -> None:
    state.out.give("/", token.start(), token.end())


def _say_escaped(state: State, token: re.Match[str]) -> None:
    state.out.give(token.group()[1], token.start(), token.end())


def _space(state: State, token: re.Match[str]) -> None:
    state.out.space(token.start(), token.end())


_DELIMITERS = (
    Rule(r"\\[()\[\]]", _delimit, r"\\"),
    Rule(r"\$\$", _delimit, r"\$.?"),
)
# A capital letter alone is a variable; "$5" and "$PATH" are none.
LATEX_RULES = (
    *_DELIMITERS,
    Rule(r"(?<![^\W_])\$(?=\\|[a-zα-ω]|[^\W\d_](?![^\W_]))", _delimit),
    Rule(r"\\(?=\n)", drop),
    Rule(r"\\[!-/:-@\[-`{-~]", _say_escaped),
)
"""Rules for the beginning of mathematics, and for escaped characters, which Markdown has too."""
MATH_RULES = (
    *_DELIMITERS,
    Rule(r"\$", _delimit),
    Rule(r"\\[a-zA-Z]{1,31}", _say_command, r"\\[a-zA-Z]{1,30}"),
    Rule(r"\\[{},]", drop),
    Rule(r"\}\{", _say_slash, r"\}"),
    Rule(r"[{}]", drop),
    Rule(r"_+", _space, r"_+"),
)
"""Rules within mathematics."""
