"""Readings of symbols and operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.text.english import measures, tables
from app.text.english.normalize import NormalizerContext
from app.text.english.patterns import SIGN

_LETTER_BEFORE: Final = re.compile(r"(?:^|[^\w</])\w$")
_LETTER_AFTER: Final = re.compile(r"\w(?!\w)")
_MARK_BEFORE: Final = re.compile(r"\d\.\d+$")
_FULL_MARK: Final = re.compile(r"(?:(?:4|5|10)(?:\.0)?|20|100)(?!\d|\.\d)")
_VARIABLE: Final = re.compile(r"\d\s?\(\w\s$")  # "3(x - 2)"
_EQUATION: Final = re.compile(r"[=^²³⁴-⁹ⁿ]")
# A number, a power, a bracket, a variable with or without a coefficient; the same after the sign.
_TERM_BEFORE: Final = re.compile(
    r"(?:[\d\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089)\]%°!′']|(?<![^\W\d_])[A-Za-zα-ω]|\d[A-Za-z]{1,3})\s*$"
)
_TERM_AFTER: Final = re.compile(
    r"\s*(?:[\d(\[√∞|$€£]|(?!a\s[a-z]{2})[A-Za-zα-ω](?![a-zA-ZÀ-ɏα-ω])|(?:sin|cos|tan|log|ln|exp|lim|sqrt)(?!\w))"
)
_COMPARED: Final = re.compile(rf"\s?(?:{SIGN})?\d")


def read_operator(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an operator of two characters: `a <= b`."""
    spoken = tables.OPERATORS.get(text, "")
    if spoken:
        context.say(spoken, start, end)


def read_sharp(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a note or language with a sharp: `C# is`."""
    context.say([text[0], "sharp"], start, end)


def read_grade(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a grade with a minus: `an A-.`."""
    context.say([text[0]], start, start + 1)
    context.say("minus", start + 1, end)


def read_function(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a function of one variable: `f(x) = 3`."""
    opened = start + text.index("(")
    context.say([text[0].upper()], start, start + 1, tag="LETTERS")
    context.say("prime of" if text[1] != "(" else "of", start + 1, opened + 1)
    value = text[text.index("(") + 1 : -1]
    if value.isdecimal():
        context.say(context.cardinal(value), opened + 1, end)
    else:
        context.say([value.upper()], opened + 1, end, tag="LETTERS")


def read_flag(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an option of a command: `git commit -m "fix"`."""
    context.say("dash", start, start + 1)
    context.say([text[1].upper()], start + 1, end, tag="LETTERS")


@dataclass(frozen=True, slots=True)
class _Neighbors:
    """Characters around a symbol: `left` and `right` touch it; `before` and `after` are the nearest visible ones."""

    left: str
    right: str
    before: str
    after: str

    @property
    def between_digits(self) -> bool:
        """Return whether the nearest visible characters are digits."""
        return self.before.isdecimal() and self.after.isdecimal()

    @property
    def spaced(self) -> bool:
        """Return whether white space is on both sides."""
        return self.left.isspace() and self.right.isspace()


def read_symbol(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read any other symbol: `a & b`."""
    near = _Neighbors(
        left=context.text[start - 1 : start],
        right=context.text[end : end + 1],
        before=context.before(start).rstrip()[-1:],
        after=context.after(end).lstrip()[:1],
    )
    rule = _SYMBOL_RULES.get(text)
    spoken = rule(context, near, text, start) if rule is not None else tables.SPOKEN_SYMBOLS.get(text, "")
    context.say(spoken, start, end)


def _minus(context: NormalizerContext, near: _Neighbors, text: str, start: int) -> str:
    before = context.before(start)
    begins = not near.left.isalnum() and (text == "−" or near.before in (*"=<>≤≥",))
    sign = near.right.strip() and (begins or before.endswith(("UTC", "GMT")))
    if text == "−" or sign:
        number = (sign or _TERM_BEFORE.search(before)) and _TERM_AFTER.match(context.text, start + 1) is not None
    else:  # in an equation a letter stands for a number: "y = 3x - 7"
        algebra = _EQUATION.search(before) is not None or _VARIABLE.search(before) is not None
        number = near.before.isnumeric() or (near.before.isalpha() and algebra)
        number = number and near.after.isdecimal()
    return "minus" if (near.spaced or sign) and number else ""


def _slash(context: NormalizerContext, near: _Neighbors, text: str, start: int) -> str:
    if near.between_digits:
        graded = _MARK_BEFORE.search(context.before(start)) and _FULL_MARK.match(context.text, start + 1)
        return "out of" if graded else "divided by"
    if near.right.isalpha() and measures.read_per(context, start):
        return ""
    over = near.left in (*")²³",) and near.right.isalnum() and _TERM_AFTER.match(context.text, start + 1)
    return "over" if over else ""


def read_ten_power(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read the sign before a power of ten: `5 x 10^3`."""
    context.say("times", start, end)


def _tilde(context: NormalizerContext, near: _Neighbors, text: str, start: int) -> str:
    if near.left.isalnum() and near.right.isdecimal() and not near.left.isdecimal():
        return "tilde"
    if near.between_digits:
        return tables.ONLY_BETWEEN_NUMBERS[text]
    return "about" if near.after.isdecimal() or near.after in tuple("$£€¥.") else ""


def _comparison(context: NormalizerContext, near: _Neighbors, text: str, start: int) -> str:
    letters = _LETTER_BEFORE.search(context.before(start)) and _LETTER_AFTER.match(context.text, start + 1)
    amount = near.right and not near.right.isspace() and _COMPARED.match(context.text, start + 1)
    compares = letters or amount or (near.spaced and near.before and near.after)
    return tables.SPOKEN_SYMBOLS[text] if compares else ""


def _label(context: NormalizerContext, near: _Neighbors, text: str, start: int) -> str:
    """Return the name of a sign that labels the text after it: "© 2024", "§§ 5-7"."""
    repeated = text == "©" and context.previous_word(start).lower() == "copyright"
    if near.right == text or not near.after.isalnum() or repeated:
        return ""
    if text in "↑↓" and not near.after.isdecimal():
        return ""
    name = tables.SPOKEN_SYMBOLS[text]
    return name + "s" if near.left == text else name


_SYMBOL_RULES: Final[dict[str, Callable[[NormalizerContext, _Neighbors, str, int], str]]] = {
    **dict.fromkeys("-−", _minus),
    **dict.fromkeys("<>", _comparison),
    **dict.fromkeys("*^", lambda c, near, text, _: tables.ONLY_BETWEEN_NUMBERS[text] if near.between_digits else ""),
    **dict.fromkeys("©§¶№↑↓", _label),
    **dict.fromkeys("#®™", lambda c, near, text, _: ""),
    "/": _slash,
    # After a number: "5★ hotel". A row of stars is decoration.
    "★": lambda c, near, text, _: (
        "" if not near.left.isdecimal() or near.right == text else "star" if near.after.isalpha() else "stars"
    ),
    # Before a variable, "$HOME", or alone.
    "$": lambda c, near, text, _: "dollar" if near.right.isalpha() else tables.SPOKEN_SYMBOLS[text],
    "~": _tilde,
    "=": lambda c, near, text, _: "" if near.left == text or not near.after else tables.SPOKEN_SYMBOLS[text],
}
"""Rules that return the words for a symbol, "" for none. Other symbols have one reading, in `tables.SPOKEN_SYMBOLS`."""
