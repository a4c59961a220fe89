"""LaTeX in a language model's text: only its signs are spoken, not its commands."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.scanner import NOT_AFTER_WORD, Action, Math, Rule, State, drop, space

_SIGNS: Final = {
    "times": "×", "cdot": "·", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "infty": "∞", "sum": "∑", "int": "∫", "sqrt": "√", "alpha": "α", "beta": "β",
    "gamma": "γ", "delta": "δ", "Delta": "Δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Omega": "Ω", "degree": "°", "circ": "°",
}  # fmt: skip


def _set(math: Math) -> Action:
    def action(state: State, token: re.Match[str]) -> None:
        state.math = math

    return action


def _say_command(state: State, token: re.Match[str]) -> None:
    state.out.give(_SIGNS.get(token.group()[1:], ""), token.start(), token.end())


def _say_slash(state: State, token: re.Match[str]) -> None:
    state.out.give("/", token.start(), token.end())


def _say_escaped(state: State, token: re.Match[str]) -> None:
    state.out.give(token.group()[1], token.start(), token.end())


LATEX_RULES: Final = (
    Rule(r"\\\(", _set("inline"), r"\\"),
    Rule(r"\\\[", _set("display")),
    Rule(r"\\[)\]]", _set("")),
    Rule(r"\$\$", _set("display"), r"\$.?"),
    # A capital letter alone is a variable; "$5" and "$PATH" are none.
    Rule(rf"{NOT_AFTER_WORD}\$(?=\\|[a-zα-ω]|[^\W\d_](?![^\W_]))", _set("inline")),
    Rule(r"\\(?=\n)", drop),
    Rule(r"\\[!-/:-@\[-`{-~]", _say_escaped),
)
"""Rules for the beginning of mathematics, and for escaped characters, which Markdown has too."""
MATH_RULES: Final = (
    Rule(r"\$\$?", _set(""), r"\$"),
    Rule(r"\\[a-zA-Z]{1,31}", _say_command, r"\\[a-zA-Z]{0,30}"),
    Rule(r"\\[{},]", drop),
    Rule(r"_+", space, r"_+"),
    Rule(r"\}\{", _say_slash, r"\}"),
    Rule(r"[{}]", drop),
)
"""Rules within mathematics, before those of the text."""
