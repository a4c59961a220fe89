"""Readings of plain numbers: cardinals, ordinals, fractions, powers, ranges."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from app.text.english import numbers, tables, units
from app.text.english.codes import Codes
from app.text.english.dates import Dates
from app.text.english.patterns import PLURAL, UNIT

_YEAR: Final = re.compile(r"1\d\d\d|20\d\d")
_COUNTED: Final = re.compile(rf"\s+{PLURAL}")
_YEAR_BEFORE: Final = re.compile(
    r"\b(?:in|since|by|until|till|from|of|during|after|before|year|circa)\s+$", re.IGNORECASE
)
_BOOK_NUMBER: Final = re.compile(
    r"\s+(?:Corinthians|Kings|Samuel|Chronicles|Peter|John|Timothy|Thessalonians"
    r"|(?:Cor|Sam|Chr|Kgs|Pet|Tim|Thess|Jn)\.?)\s+\d"
)
_TO_ORDINAL: Final = re.compile(r"\s?(?P<dash>[-–])\s?(?=\d{1,3}(?:st|nd|rd|th)\b)")
_MILITARY: Final = re.compile(r"\b(?:at|by|until|till|before|after|from|to)\s+$")
_AIRLINER: Final = re.compile(r"7[0-8]7-(?:[1-9]00|[89]|10)")
# The greater share first: "60-40".
_SHARES: Final = re.compile(r"[5-9]\d-\d{1,2}")
_HOURS: Final = re.compile(r"0\d[0-5]\d")
_UNIT_AFTER: Final = re.compile(rf"\s?(?:{UNIT})(?!\w)")


class Quantities(Dates, Codes):
    """The methods for the kinds of `app.text.english.patterns` that are plain numbers."""

    def _scientific(self, text: str, start: int, end: int) -> None:
        mantissa, exponent = re.split(r"[eE]", text)
        power = self._number_words(exponent.lstrip("+"))
        self._say([*self._number_words(mantissa), "times", "ten", "to", "the", *power], start, end)

    def _power(self, text: str, start: int, end: int) -> None:
        self._say(self._to_the_power(unicodedata.normalize("NFKC", text), text in ("²", "³")), start, end)

    def _caret(self, text: str, start: int, end: int) -> None:
        exponent = text.strip().lstrip("^").strip(" ()")
        base = self._text[:start].rstrip()[-1:]
        self._say(self._to_the_power(exponent, not base.isdecimal() and exponent in ("2", "3")), start, end)

    def _to_the_power(self, exponent: str, short: bool) -> list[str]:
        if short:
            return ["squared" if exponent == "2" else "cubed"]
        exponent = exponent.replace("−", "-").lstrip("+")
        if not exponent.lstrip("-").isdecimal():  # a letter
            return ["to", "the", "power", "of", *(["minus"] if exponent[0] == "-" else []), exponent.lstrip("-")]
        return ["to", "the", "power", "of", *self._number_words(exponent)]

    def _index(self, text: str, start: int, end: int) -> None:
        self._say(self._cardinal(unicodedata.normalize("NFKC", text)), start, end)

    def _dotted(self, text: str, start: int, end: int) -> None:
        self._say([item for part in text.split(".") for item in ["point", *self._cardinal(part)]][1:], start, end)

    def _grouped(self, text: str, start: int, end: int) -> None:
        self._say(self._cardinal(text.replace(" ", "")), start, end)
        self._unit_of_fraction(end, many=True)

    def _decimal_comma(self, text: str, start: int, end: int) -> None:
        self._say(self._number_words(text.replace(",", ".")), start, end)

    def _scaled(self, text: str, start: int, end: int) -> None:
        digits = text.rstrip("bnmtkKMBT")
        self._say([*self._number_words(digits), units.SCALES[text[len(digits) :].lower()]], start, end)

    def _times(self, text: str, start: int, end: int) -> None:
        self._say([*self._number_words(text[:-1]), "times"], start, end)

    def _mixed_fraction(self, text: str, start: int, end: int) -> None:
        whole, part = text.split(" ")
        self._say([*self._cardinal(whole), "and"], start, start + len(whole))
        top, bottom = tables.VULGAR_FRACTIONS[part] if part in tables.VULGAR_FRACTIONS else part.split("/")
        self._say(self._part(top, bottom), start + len(whole) + 1, end)
        self._unit_of_fraction(end, many=True)

    def _part(self, top: str, bottom: str) -> list[str]:
        """A fraction after a whole number."""
        words = numbers.fraction(top, bottom, british=self._british)
        return ["a", *words[1:]] if (top, bottom) in (("1", "2"), ("1", "4")) else words

    def _ratio(self, text: str, start: int, end: int) -> None:
        top, bottom = text.split("/")
        if self._days([top, bottom], "and", start, end) or self._month_and_day(top, bottom, start, end):
            return
        if top == bottom or text in ("24/7", "9/11"):
            self._say([*self._cardinal(top), *self._cardinal(bottom)], start, end)
        elif int(top) > int(bottom) >= 20:  # a blood pressure
            self._say([*self._cardinal(top), "over", *self._cardinal(bottom)], start, end)
            self._unit_of_fraction(end, many=True)
        else:
            self._say(numbers.fraction(top, bottom, british=self._british), start, end)
            self._unit_of_fraction(end, many=int(top) > int(bottom))

    def _unit_of_fraction(self, end: int, *, many: bool) -> None:
        found = _UNIT_AFTER.match(self._text, end)
        unit = found.group().strip().replace("μ", "µ") if found is not None else ""
        if found is not None and len(unit) > 1 and unit != "in":
            self._say(self._accented(units.UNITS[unit][many]), end + len(found.group()) - len(unit), found.end())
            self._end = self._unit_end(found.end())

    def _unit_end(self, end: int) -> int:
        """The end of a unit with its full stop, where that is no end of a sentence."""
        return end + (re.match(r"\.(?=,|\s+[a-z\d(])", self._text[end : end + 8]) is not None)

    def _dimension(self, text: str, start: int, end: int) -> None:
        left, right = re.split(r"\s?x\s?", text)

        self._say([*self._number_words(left), "by", *self._number_words(right)], start, end)

    def _ordinal(self, text: str, start: int, end: int) -> None:
        if not self._days([text[:-2]], "", start, end):
            self._say(numbers.ordinal(text[:-2], british=self._british), start, end)
        self._to(end, _TO_ORDINAL)

    def _sign(self, start: int) -> None:
        """Say the minus before a number, which is a sign only where no letter or digit touches it."""
        before = self._text[max(0, start - 2) : start]
        said = self._out and self._out[-1].end == self._offset + start
        if before.endswith(("-", "−")) and not before[-2:-1].isalnum() and not said:
            self._say("minus", start - 1, start)

    def _first(self, text: str, start: int, end: int) -> None:
        """The first number of a range whose second one has a unit or time: "3-5pm"."""
        digits = text.rstrip("-– ")
        dash = start + len(text.rstrip()) - 1
        self._sign(start)
        self._say(self._number_words(digits), start, start + len(digits))
        self._say("to", dash, dash + 1)

    def _range(self, text: str, start: int, end: int) -> None:
        left, right = re.split(r"\s?[–-]\s?", text)
        if self._days([left, right], "to", start, end):
            return
        years = all(_YEAR.fullmatch(side) and side[1] != "0" for side in (left, right)) or (
            _YEAR.fullmatch(left) and re.fullmatch(r"20\d\d|\d\d", right)
        )
        if self._previous_word(start).lower() in ("boeing", "airbus") or _AIRLINER.fullmatch(text):
            self._say([*self._digits_in_name(left), *self._digits_in_name(right)], start, end)
            return
        if len(right) > 2 and right[0] == "0" and right.isdecimal():  # the number of an invoice
            self._say([*self._digits_in_name(left), *numbers.one_by_one(right)], start, end)
            return
        if (
            "-" in text and left.isdecimal() and right.isdecimal() and int(left) + int(right) == 100 and int(left) >= 50
        ):  # shares
            self._say([*self._cardinal(left), *self._cardinal(right)], start, end)
            return
        if years:
            spoken = [numbers.year(left, british=self._british), self._year_or_tail(right)]
        else:
            spoken = [self._number_words(left), self._number_words(right)]
        self._say([*spoken[0], "to", *spoken[1]], start, end)

    def _year_or_tail(self, digits: str) -> list[str]:
        return numbers.year(digits, british=self._british) if len(digits) == 4 else self._cardinal(digits)

    def _number(self, text: str, start: int, end: int) -> None:
        self._sign(start)
        if self._days([text], "", start, end) or self._day_before_month(text, start, end):
            return
        if self._is_named(text, start, end):
            return
        if re.fullmatch(r"\d+\.\d+", text) and self._previous_word(start).lower() in tables.VERSIONED:
            whole, fraction = text.split(".")
            tail = (
                ["oh", *self._cardinal(fraction[1])] if re.fullmatch(r"0[1-9]", fraction) else self._cardinal(fraction)
            )
            self._say([*self._cardinal(whole), "point", *tail], start, end)
        elif _HOURS.fullmatch(text) and _MILITARY.search(self._before(start)):
            tail = ["oh"] if text[2] == "0" else []
            tail = ["hundred"] if text[2:] == "00" else [*tail, *self._cardinal(str(int(text[2:])))]
            self._say(["oh" if text[1] != "0" else "zero", *(self._cardinal(text[1])), *tail], start, end)
        elif len(text) == 4 and self._next_word(end) == "hours" and _MILITARY.search(self._before(start)):
            self._say(self._digits_in_name(text), start, end)
        elif _YEAR.fullmatch(text) and self._is_year(text, start, end):
            self._say(numbers.year(text, british=self._british), start, end)
        elif text in ("1", "2", "3") and _BOOK_NUMBER.match(self._text, end):
            self._say(numbers.ordinal(text, british=self._british), start, end)
        elif (
            text.isdecimal()
            and len(text) >= 10
            and not (text.endswith("000") and len(text) <= numbers.LONGEST_CARDINAL)
        ):
            for i, digit in enumerate(text):  # a span for each, so that a long one can be cut
                self._say(numbers.one_by_one(digit), start + i, start + i + 1)
        else:
            self._say(self._number_words(text), start, end)

    def _is_year(self, text: str, start: int, end: int) -> bool:
        counted = _COUNTED.match(self._text, end) is not None or self._before(start).rstrip().endswith("=")
        return not counted or _YEAR_BEFORE.search(self._before(start)) is not None

    def _numeral(self, text: str, start: int, end: int) -> None:
        """Superscripts, fractions, circled numbers, and letters of any other script."""
        if text in tables.VULGAR_FRACTIONS:
            top, bottom = tables.VULGAR_FRACTIONS[text]
            mixed = start > 0 and self._text[start - 1].isdecimal()
            self._say(
                ["and", *self._part(top, bottom)] if mixed else numbers.fraction(top, bottom, british=self._british),
                start, end,
            )  # fmt: skip
            self._unit_of_fraction(end, many=mixed)
            return
        value = unicodedata.numeric(text, -1.0)
        if value >= 0 and value == int(value) and value < 1e15:
            self._say(self._cardinal(str(int(value))), start, end)
        else:
            self._say([text], start, end)
