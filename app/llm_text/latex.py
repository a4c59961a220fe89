"""LaTeX in a language model's text: only its signs are spoken, not its commands."""

from __future__ import annotations

from typing import Final

from app.llm_text.scanner import NOT_AFTER_WORD, TokenRule, change, drop, say_as, space

_SIGNS: Final = {
    "times": "×", "cdot": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "infty": "∞", "sum": "∑", "int": "∫", "sqrt": "√", "alpha": "α", "beta": "β",
    "gamma": "γ", "delta": "δ", "Delta": "Δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Omega": "Ω", "degree": "°", "circ": "°",
}  # fmt: skip

# Mathematics up to its closing sign: a number or letter alone, or no words and a sign. "$5 and $10" are prices.
_WORDS: Final = r"\\(?:text|math|mbox|operator)[a-zA-Z]{0,20}+\{[^{}$\n]{0,60}"
_COMMAND: Final = rf"{_WORDS}\}}|\\(?:(?!text|math|mbox|operator)[a-zA-Z]{{1,31}}+|[^\na-zA-Z])"
_PART: Final = rf"(?:{_COMMAND}|[a-zA-Z]{{1,2}}(?![a-zA-Z])|\.(?!\s)|[^$\n\\a-zA-Z.?])"
_SOLE: Final = r"\d(?:[\d.,]{0,30}\d)?[^\W\d_]?|[^\W\d_]"
_SIGN: Final = r"[^$\n]{0,200}?(?:(?<!\*)\*(?!\*)|[-+/=<>|(\[^_\\×·÷±−–≤≥≠≈])"
_CLOSED: Final = rf"(?:(?:{_SOLE})|(?={_SIGN})(?!\s){_PART}{{1,200}}+(?<!\s))\$(?!\d)"
_CLOSED_BEGUN: Final = rf"(?!\s){_PART}{{0,200}}+(?:{_WORDS}|\\[a-zA-Z]{{0,31}}|\$)?"
# A sign that is raised or lowered may follow a word: "CO$_2$".
_OPEN: Final = rf"(?:{NOT_AFTER_WORD}|(?=\$[\\^_]))\$"

LATEX_RULES: Final = (
    TokenRule(r"\\\(", change(math="inline"), r"\\"),
    TokenRule(r"\\\[", change(math="display")),
    TokenRule(r"\\[)\]]", change(math="")),
    TokenRule(r"\$\$", change(math="display"), r"\$.?"),
    # A capital letter alone is a variable; "$5" and "$PATH" are none.
    TokenRule(rf"{NOT_AFTER_WORD}\$(?=\\|[a-zα-ω]|[^\W\d_](?![^\W_]))", change(math="inline")),
    TokenRule(rf"{_OPEN}(?={_CLOSED})", change(math="inline"), _OPEN + _CLOSED_BEGUN),
    TokenRule(r"\\(?=\n)", drop),
    TokenRule(r"\\[!-/:-@\[-`{-~]", say_as(lambda token: token[1])),
)
"""Rules for the beginning of mathematics, and for escaped characters, which Markdown has too."""
MATH_RULES: Final = (
    TokenRule(r"\$\$?", change(math=""), r"\$"),
    TokenRule(r"\^\{?\\circ(?![a-zA-Z])\}?", say_as(lambda _: "°"), r"\^\{?(?:\\c?i?r?c?\}?)?"),
    TokenRule(r"\\[a-zA-Z]{1,31}", say_as(lambda token: _SIGNS.get(token[1:], "")), r"\\[a-zA-Z]{0,30}"),
    TokenRule(r"\\[{},]", drop),
    TokenRule(r"_+", space, r"_+"),
    TokenRule(r"\}\{", say_as(lambda token: "/"), r"\}"),
    TokenRule(r"[{}]", drop),
)
"""Rules within mathematics, before those of the text."""
