"""Readings of money and measures."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import tables, units
from app.text.english.patterns import NUM, SCALE_WORD, SIGN
from app.text.english.quantities import Quantities

_AMOUNT: Final = rf"\d+,\d\d(?!\d|,\d)|{NUM}"
_MONEY: Final = re.compile(rf"(-?)({SIGN})(\s?)(-?)({_AMOUNT})(\s?)(.*)")
_MONEY_CODE: Final = re.compile(rf"([^\W\d]+)\.?\s?({_AMOUNT})\s?(\w*)")
_MONEY_AFTER: Final = re.compile(rf"({_AMOUNT})\s?({SCALE_WORD}|bn|mn|tn|[kKmMbB](?!r))?\s?(\D+)$")
_SECOND_AMOUNT: Final = re.compile(
    rf"(-|\s?–\s?)({NUM})(?:\s?({SCALE_WORD})\b|(bn|mn|tn|[kKmMbBT])\b)?(?![\w-]|[.,]\d|\s?%)"
)
_QUANTITY: Final = re.compile(rf"({NUM})(\s?)(.+)$")
_TO_AMOUNT: Final = re.compile(rf"(?P<space>\s)?(?P<dash>[-–])(?(space)\s(?=(?:{SIGN})\d)|(?=(?:{SIGN})?\d))")
_BY: Final = re.compile(r"\s?(?P<dash>[x×])\s?(?=\d)")
_OPENING: Final = re.compile(r'(?<!\d)"')
_RATE: Final = re.compile(r"\d[\d.,]*\s?[a-z]*$")
_TIMES: Final = frozenset(("day", "week", "month", "year", "hour", "minute", "second", "person"))
_PER: Final = re.compile(r"/([A-Za-zµμ²³]+)")


class Measures(Quantities):
    """The methods for the kinds of `app.text.english.patterns` that are amounts of something."""

    def _money(self, text: str, start: int, end: int) -> None:
        found = _MONEY.match(text)
        if found is None:
            raise AssertionError(text)
        sign = "-" if found.group(1) or found.group(4) else ""
        scale, unit = found.group(7), found.group(2).lower()
        number_end = start + found.end(5)
        second = _SECOND_AMOUNT.match(self._text, end)
        if second is not None and not scale:
            self._two_amounts(sign + found.group(5), unit, second, start, end)
            return
        stop = number_end if scale and found.group(6) else end
        self._amount(sign + found.group(5), unit, scale, start=start, number_end=stop, end=end)
        self._to(end, _TO_AMOUNT)

    def _two_amounts(self, first: str, unit: str, second: re.Match[str], start: int, end: int) -> None:
        """A sign before two amounts: "$3-5", "£5-10m"."""
        dash, digits, scale = second.group(1), second.group(2), second.group(3) or second.group(4) or ""
        self._say(self._number_words(first), start, end)
        self._say("to", end, end + len(dash.rstrip()))
        self._end = second.end()
        self._amount(digits, unit, scale, start=second.start(2), number_end=second.end(), end=second.end())

    def _money_code(self, text: str, start: int, end: int) -> None:
        found = _MONEY_CODE.match(text)
        if found is None:
            raise AssertionError(text)
        self._amount(found.group(2), found.group(1).lower(), found.group(3), start=start, number_end=end, end=end)

    def _money_after(self, text: str, start: int, end: int) -> None:
        if text.endswith("p"):
            one, many = units.CURRENCIES["£"][2:]
            self._say([*self._cardinal(text[:-1]), one if text == "1p" else many], start, end)
            return
        found = _MONEY_AFTER.match(text)
        if found is None:
            raise AssertionError(text)
        unit, scale = found.group(3).strip().lower(), found.group(2) or ""
        amount = found.group(1)
        if unit == "€" and re.fullmatch(r"\d{1,3}\.\d{3}", amount):  # a continental thousand
            amount = amount.replace(".", "")
        self._amount(amount, unit, scale, start=start, number_end=start + found.end(1), end=end)
        self._to(end, _TO_AMOUNT)

    def _amount(self, digits: str, unit: str, scale: str, *, start: int, number_end: int, end: int) -> None:
        one, many, cent, cents = units.CURRENCIES[unit]
        if re.fullmatch(r"-?\d+,\d\d", digits):
            digits = digits.replace(",", ".")
        if self._describes(start, end):
            many, cents = one, cent
        rest = self._text[number_end:end]
        rest_start = start if not rest.strip() else end - len(rest.lstrip())
        number_end = end if rest_start == start else number_end
        scale_word = units.SCALES.get(scale.lower(), "")
        whole, point, fraction = digits.partition(".")
        if scale_word or (point and len(fraction) != 2) or not cent:
            self._say(self._number_words(digits), start, number_end)
            single = digits == "1" and not scale_word
            self._say([*scale_word.split(), *(one if single else many).split()], rest_start, end)
            return
        amount = int(whole.lstrip("-").replace(",", "") or "0")
        small = int(fraction) if fraction else 0
        spoken = ["minus"] if whole.startswith("-") else []
        if amount or not small:
            spoken += [*self._cardinal(whole.lstrip("-") or "0"), *(one if amount == 1 else many).split()]
        if small:
            spoken += ["and"] if amount else []
            spoken += [*self._cardinal(str(small)), cent if small == 1 else cents]
        self._say(spoken, start, end)

    def _height(self, text: str, start: int, end: int) -> None:
        feet, inches = re.findall(r"\d+", text)
        if int(inches) > 11:  # a time
            names = ["minute" if feet == "1" else "minutes", "seconds" if text.endswith('"') else ""]
            self._say([*self._cardinal(feet), names[0], *self._cardinal(inches), names[1]], start, end)
            return
        self._say([*self._cardinal(feet), "foot", *self._cardinal(inches)], start, end)

    def _inches(self, text: str, start: int, end: int) -> None:
        if len(_OPENING.findall(self._text, 0, start)) % 2:  # the end of a quotation
            self._end = end - 1
            self._number(text[:-1], start, end - 1)
            return
        self._measure(text[:-1], "in", start, end, end)

    def _feet(self, text: str, start: int, end: int) -> None:
        self._measure(text[:-1], "ft", start, end, end)

    def _quantity(self, text: str, start: int, end: int) -> None:
        found = _QUANTITY.match(text)
        if found is None:
            raise AssertionError(text)
        digits, space, unit = found.group(1), found.group(2), found.group(3).replace("μ", "µ").rstrip(".")
        if len(unit) == 1 and unit.isupper() and not space and digits.isdecimal() and self._is_place(start):
            self._say([*self._digits_in_name(digits), unit], start, end)
            return
        pages = text.endswith("pp.") and len(digits) > 1 and not digits.startswith("-")
        self._sign(start)
        self._measure(digits, "pp." if pages else unit, start, start + len(digits) if space else end, end)
        if pages:
            self._full_stop_if_last(end)

    def _is_place(self, start: int) -> bool:
        """Whether a number and a letter name a place, as in "seat 12A"."""
        before = self._previous_word(start).lower()
        return before in tables.PAIRED or before in tables.LETTERED

    def _measure(self, digits: str, unit: str, start: int, number_end: int, end: int) -> None:
        spaced = number_end < end
        self._end = self._unit_end(end)
        attached = units.ATTACHED.get(unit) if not spaced else None
        top, _, bottom = unit.partition("/") if attached is None and unit not in units.UNITS else (unit, "", "")
        one, many = attached or units.UNITS[top]
        name = one if digits == "1" or self._describes(start, self._end) else many
        if bottom:
            name += f" per {units.UNITS[bottom][0]}"
        self._say(self._number_words(digits), start, number_end)
        self._say(self._accented(name), number_end + 1 if spaced else start, end)
        self._to(self._end, _TO_AMOUNT)
        self._to(self._end, _BY, "by")

    def _feet_inches(self, text: str, start: int, end: int) -> None:
        feet, inches = re.findall(r"\d+", text)
        names = ["foot" if feet == "1" else "feet", "inch" if inches == "1" else "inches"]
        self._say([*self._cardinal(feet), names[0], *self._cardinal(inches), names[1]], start, end)
        self._end = self._unit_end(end)

    def _per(self, start: int) -> bool:
        """Say "/hr" after an amount; False if that is not what stands here."""
        last = self._out[-1].text if self._out else ""
        found = _PER.match(self._text, start)
        if found is None:
            return False
        if last not in _MEASURES and not (found.group(1) in _TIMES and _RATE.search(self._before(start))):
            return False
        self._say("per", start, start + 1)
        unit = units.UNITS.get(found.group(1).replace("μ", "µ"))
        if (unit is not None and len(found.group(1)) > 1) or found.group(1) in ("h", "s", "m", "g", "L", "l"):
            self._say(self._accented(units.UNITS[found.group(1).replace("μ", "µ")][0]), start + 1, found.end())
            self._end = found.end()
        return True


_MEASURES: Final = frozenset(
    name.split()[-1] for names in (*units.UNITS.values(), *units.CURRENCIES.values()) for name in names if name
) | {"million", "billion"}
