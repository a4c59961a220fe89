"""Numbers in English words, by num2words. Every function returns a list of lower-case words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from num2words import num2words

# Longer numbers are read digit by digit.
MAX_CARDINAL_DIGITS: Final = 15
_WORD: Final = re.compile(r"[a-z]+")


@lru_cache(maxsize=4096)
def _spoken(number: int, form: str) -> str:
    words: str = num2words(number, to=form)
    return words


def _words(spoken: str, *, british: bool) -> list[str]:
    words = _WORD.findall(spoken)
    return words if british else [item for item in words if item != "and"]


def cardinal(digits: str, *, british: bool) -> list[str]:
    """Return "1,234" as words. Ignore commas. Read a long number, or one with a leading zero, digit by digit."""
    plain = digits.replace(",", "")
    if len(plain) > MAX_CARDINAL_DIGITS or (len(plain) > 1 and int(plain[0]) == 0):
        return one_by_one(plain)
    return _words(_spoken(int(plain), "cardinal"), british=british)


def one_by_one(digits: str) -> list[str]:
    """Return each digit as a word, "oh" not used."""
    return [_spoken(int(digit), "cardinal") for digit in digits if digit.isdecimal()]


def hexadecimal(text: str) -> list[str]:
    """Return each digit as a word, and each letter as a capital."""
    return [one_by_one(sign)[0] if sign.isdecimal() else sign.upper() for sign in text]


def telephone(digits: str) -> list[str]:
    """Return digits as a telephone number is read, zero as "oh"."""
    return ["oh" if int(digit) == 0 else _spoken(int(digit), "cardinal") for digit in digits if digit.isdecimal()]


def ordinal(digits: str, *, british: bool) -> list[str]:
    """Return "21" as "twenty first"."""
    plain = digits.replace(",", "")
    if len(plain) > MAX_CARDINAL_DIGITS:
        return one_by_one(plain)
    return _words(_spoken(int(plain), "ordinal"), british=british)


def decimal(whole: str, fraction: str, *, british: bool) -> list[str]:
    """Return "3", "14" as "three point one four"."""
    head = cardinal(whole, british=british) if whole else ["zero"] if british else []
    return [*head, "point", *one_by_one(fraction)]


def year(digits: str, *, british: bool) -> list[str]:
    """Return a year of three or four digits: "1905" as "nineteen oh five", "2005" as "two thousand five"."""
    number = int(digits)
    if number < 1000 or number % 1000 < 10 or 2000 <= number < 2010:
        return _words(_spoken(number, "cardinal"), british=british)
    return _words(_spoken(number, "year"), british=british)


def plural(words: list[str]) -> list[str]:
    """Return the words with the last one in the plural: "nineteen nineties"."""
    last = words[-1]
    return [*words[:-1], last[:-1] + "ies" if last.endswith("y") else last + ("es" if last.endswith("x") else "s")]


def fraction(numerator: str, denominator: str, *, british: bool) -> list[str]:
    """Return "3", "4" as "three quarters"."""
    top, bottom = int(numerator), int(denominator)
    names = {2: ("half", "halves"), 4: ("quarter", "quarters")}
    head = cardinal(numerator, british=british)
    if bottom in names:
        return [*head, names[bottom][top != 1]]
    if bottom < 2 or bottom > 100 or top >= bottom * 10 or min(top, bottom) > 20:
        return [*head, "over", *cardinal(denominator, british=british)]
    tail = ordinal(denominator, british=british)
    return [*head, *(tail if top == 1 else plural(tail))]
