"""Numbers in words, by num2words, with genders and forms that it lacks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

Gender = Literal["m", "f"]

_ROMAN: Final = re.compile(r"M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
_ROMAN_VALUES: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


class Numbers:
    """Words of the numbers of one language. Methods are safe on any thread.

    `name` is the language's name in num2words. `parts` names halves, thirds and so on, in the singular and plural.
    """

    def __init__(self, tag: str, name: str, parts: dict[int, tuple[str, str]]) -> None:
        self._tag, self._language, self._named_parts = tag, name, parts
        self._cached = lru_cache(maxsize=4096)(self._cardinal)

    def cardinal(self, value: int, gender: Gender | None = None) -> str:
        """Return the words of a whole number. `gender` is that of the noun that follows; None: there is none."""
        return self._cached(value, gender)

    def _cardinal(self, value: int, gender: Gender | None) -> str:
        words = _number_words(value, self._language).replace(",", "")
        if self._tag == "fr-fr":
            return f"{words}e" if gender == "f" and re.search(r"\bun$", words) else words
        if self._tag == "it":
            return (
                {"f": "una", "m": "un", None: words}[gender]
                if value == 1
                else re.sub(r"(?<=\w)tre$", "tré", words.replace("dicotto", "diciotto"))
            )
        if self._tag == "es":
            return self._spanish(words, gender)
        if self._tag == "de":
            if value == 1:
                return {"f": "eine", "m": "ein", None: words}[gender]
            return re.sub(r"(?<=hundert|tausend)eins$", "ein", words) if gender else words
        if gender == "f":
            words = re.sub(r"\be um mil\b", "e uma mil", words)
            words = re.sub(r"\bum$", "uma", re.sub(r"\bdois(?=$| mil\b)", "duas", words))
            words = re.sub(r"(du|tre)zentos|quinhentos|(\w+)centos", lambda m: f"{m[0][:-2]}as", words)
        return words

    @staticmethod
    def _spanish(words: str, gender: Gender | None) -> str:
        words = re.sub(r"\by uno mil\b", "y un mil", words.replace("veintiuno mil", "veintiún mil"))
        if gender == "f":
            return re.sub(r"uno$", "una", re.sub(r"(c|qu)(in)?ientos", r"\1\2ientas", words))
        if gender == "m":
            return re.sub(r"\buno$", "un", re.sub(r"veintiuno$", "veintiún", words))
        return words

    def year(self, value: int) -> str:
        """Return the words of a year."""
        return _number_words(value, self._language, "year")

    def digits(self, text: str) -> str:
        """Return the words of each digit of `text`."""
        return " ".join(self.cardinal(int(digit)) for digit in text if digit.isdecimal())

    def fraction(self, text: str) -> str:
        """Return the words of the digits after a decimal sign: a number if they are few, else digit by digit.

        In German always digit by digit.
        """
        return self.digits(text) if self._tag == "de" or len(text) > 2 or text[0] == "0" else self.cardinal(int(text))

    def ordinal(self, value: int, gender: Gender = "m", *, short: bool = False) -> str:
        """Return the ordinal of a number from one on. `short` is the Spanish form before a noun: primer, tercer."""
        words = _number_words(value, self._language, "ordinal")
        if self._tag == "fr-fr":
            return "première" if value == 1 and gender == "f" else words
        if self._tag == "es":
            words = words.replace("quadra", "cuadra")
        if short and self._tag == "es":
            return re.sub(r"(primer|tercer)o$", r"\1", words)
        return re.sub(r"o\b", "a", words) if gender == "f" else words

    def part(self, top: int, bottom: int) -> str:
        """Return the words of a fraction: three quarters. `bottom` is from 2 on."""
        one, many = self._named_parts.get(bottom) or self._parts(bottom)
        return f"{self.cardinal(top, 'm')} {one if top == 1 else many}"

    def _parts(self, bottom: int) -> tuple[str, str]:
        if self._tag == "de":
            name = f"{self.cardinal(bottom).capitalize()}{'stel' if bottom > 19 else 'tel'}"
            return name, name
        if self._tag in ("es", "pt-br") and bottom > 10:
            name = self.cardinal(bottom) + (" " if self._tag == "pt-br" else "") + "avo"
            name = name.replace("eavo", "avo") if name.startswith("onc") else name
            return name, f"{name}s"
        name = self.ordinal(bottom)
        return name, f"{name[:-1]}i" if self._tag == "it" else f"{name}s"


def _number_words(value: int, language: str, form: str = "cardinal") -> str:
    from num2words import num2words

    return str(num2words(value, lang=language, to=form))


def roman(text: str) -> int | None:
    """Return the value of a Roman numeral up to 3999, or None if it is not one."""
    if not text or not _ROMAN.fullmatch(text):
        return None
    values = [_ROMAN_VALUES[letter] for letter in text]
    return sum(-v if i + 1 < len(values) and v < values[i + 1] else v for i, v in enumerate(values))
