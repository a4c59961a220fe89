"""How English says numbers, times, dates, money and measures."""

from __future__ import annotations

import re
import unicodedata

from app.text.english import numbers, tables
from app.text.english.patterns import MERIDIEM, NUM, SCALE_WORD, SIGN, SPACED_UNITS
from app.text.english.speaker import Speaker


class Quantities(Speaker):
    """The methods for the kinds of `app.text.english.patterns` that are made of digits."""

    def _clock(self, text: str, start: int, end: int) -> None:
        found = re.match(rf"(\d+):(\d\d)(?::(\d\d))?(?:\s?({MERIDIEM}))?", text)
        if found is None:
            raise AssertionError(text)
        hour, minute, second, meridiem = found.groups()
        spoken = self._cardinal(str(int(hour))) if int(hour) or meridiem else ["zero"]
        if int(minute) == 0:
            spoken += [] if meridiem else (["hundred"] if int(hour) > 12 or int(hour) == 0 else ["o'clock"])
            spoken = spoken if second is None else spoken[:1]
        else:
            spoken += (["oh"] if minute[0] == "0" else []) + self._cardinal(str(int(minute)))
        if second is not None and int(second):
            spoken += ["and", *self._cardinal(str(int(second))), "second" if int(second) == 1 else "seconds"]
        clock_end = start + found.end(3 if second is not None else 2)
        self._say(spoken, start, clock_end)
        if meridiem:
            self._meridiem(meridiem, start + found.start(4), end)

    def _hour(self, text: str, start: int, end: int) -> None:
        found = re.match(r"(\d+)\s?(.*)", text)
        if found is None:
            raise AssertionError(text)
        self._say(self._cardinal(found.group(1)), start, start + found.end(1))
        self._meridiem(found.group(2), start + found.start(2), end)

    def _meridiem(self, text: str, start: int, end: int) -> None:
        self._say([text[0].upper(), "M"], start, end)
        if text.endswith("."):
            self._full_stop_if_last(end)

    def _date(self, year: str, month: int, day: int, start: int, end: int) -> None:
        name = tables.MONTH_NAMES[month - 1]
        number = numbers.ordinal(str(day), british=self._british)
        spoken = ["the", *number, "of", name] if self._british else [name, *number]
        if len(year) == 2:
            year = ("20" if int(year) < 70 else "19") + year
        self._say([*spoken, *numbers.year(year, british=self._british)], start, end)

    def _iso_date(self, text: str, start: int, end: int) -> None:
        year, month, day = text.split("-")
        self._date(year, int(month), int(day), start, end)

    def _slash_date(self, text: str, start: int, end: int) -> None:
        first, second, year = text.split("/")
        month, day = (int(second), int(first)) if self._british else (int(first), int(second))
        if month > 12 >= day:
            month, day = day, month
        if 1 <= month <= 12 and 1 <= day <= 31:
            self._date(year, month, day, start, end)
        else:
            spoken = [item for part in (first, second, year) for item in ["slash", *self._cardinal(part)]]
            self._say(spoken[1:], start, end)

    def _phone(self, text: str, start: int, end: int) -> None:
        groups = [group for group in re.split(r"[^\d]+", text) if group]
        spoken = ["plus"] if text.startswith("+") else []
        for group in groups:
            spoken += numbers.telephone(group, british=self._british)
        self._say(spoken, start, end)

    def _height(self, text: str, start: int, end: int) -> None:
        feet, inches = re.findall(r"\d+", text)
        self._say([*self._cardinal(feet), "foot", *self._cardinal(inches)], start, end)

    def _money(self, text: str, start: int, end: int) -> None:
        found = re.match(rf"(-?)({SIGN})(\s?)(-?)({NUM})(\s?)(.*)", text)
        if found is None:
            raise AssertionError(text)
        sign = "-" if found.group(1) or found.group(4) else ""
        scale = found.group(7)
        number_end = start + found.end(5)
        spaced = scale if found.group(6) else ""
        stop = number_end if spaced else end
        self._amount(sign + found.group(5), found.group(2).lower(), scale, start=start, number_end=stop, end=end)

    def _money_after(self, text: str, start: int, end: int) -> None:
        found = re.match(rf"({NUM})\s?({SCALE_WORD}|bn|mn|tn|[kKmMbB])?\s?(\D+)$", text)
        if found is None:
            raise AssertionError(text)
        unit, scale = found.group(3).strip().lower(), found.group(2) or ""
        self._amount(found.group(1), unit, scale, start=start, number_end=start + found.end(1), end=end)

    def _amount(self, digits: str, unit: str, scale: str, *, start: int, number_end: int, end: int) -> None:
        one, many, cent, cents = tables.CURRENCIES[unit]
        rest = self._text[number_end:end]
        rest_start = start if not rest.strip() else end - len(rest.lstrip())
        number_end = end if rest_start == start else number_end
        scale_word = tables.SCALES.get(scale.lower(), "")
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

    def _scientific(self, text: str, start: int, end: int) -> None:
        mantissa, exponent = re.split(r"[eE]", text)
        power = self._number_words(exponent.lstrip("+"))
        self._say([*self._number_words(mantissa), "times", "ten", "to", "the", *power], start, end)

    def _power(self, text: str, start: int, end: int) -> None:
        if text in ("²", "³"):
            self._say("squared" if text == "²" else "cubed", start, end)
            return
        digits = unicodedata.normalize("NFKC", text).replace("−", "-").lstrip("+")
        self._say(["to", "the", "power", "of", *self._number_words(digits)], start, end)

    def _index(self, text: str, start: int, end: int) -> None:
        self._say(self._cardinal(unicodedata.normalize("NFKC", text)), start, end)

    def _dotted(self, text: str, start: int, end: int) -> None:
        parts = text.split(".")
        sign = "dot" if len(parts) == 4 else "point"
        self._say([item for part in parts for item in [sign, *self._cardinal(part)]][1:], start, end)

    def _mixed_fraction(self, text: str, start: int, end: int) -> None:
        whole, ratio = text.split(" ")
        self._say([*self._cardinal(whole), "and"], start, start + len(whole))
        top, bottom = ratio.split("/")
        words = ["a"] if (top, bottom) in (("1", "2"), ("1", "4")) else []
        words = words + numbers.fraction(top, bottom, british=self._british)[len(words) :]
        self._say(words, start + len(whole) + 1, end)

    def _ratio(self, text: str, start: int, end: int) -> None:
        top, bottom = text.split("/")
        if top == bottom or text in ("24/7", "9/11"):
            self._say([*self._cardinal(top), *self._cardinal(bottom)], start, end)
        else:
            self._say(numbers.fraction(top, bottom, british=self._british), start, end)

    def _dimension(self, text: str, start: int, end: int) -> None:
        left, right = re.split(r"\s?x\s?", text)
        self._say([*self._number_words(left), "by", *self._number_words(right)], start, end)

    def _ordinal(self, text: str, start: int, end: int) -> None:
        self._say(numbers.ordinal(text[:-2], british=self._british), start, end)

    def _decade(self, text: str, start: int, end: int) -> None:
        digits = re.sub(r"\D", "", text)
        spoken = self._cardinal(digits) if len(digits) == 2 else numbers.year(digits, british=self._british)
        self._say(numbers.plural(spoken), start, end)

    def _quantity(self, text: str, start: int, end: int) -> None:
        found = re.match(rf"({NUM})(\s?)(.+)$", text)
        if found is None:
            raise AssertionError(text)
        digits, space, unit = found.group(1), found.group(2), found.group(3).replace("μ", "µ")
        if space and unit not in SPACED_UNITS:
            self._end = start + len(digits)
            self._number(digits, start, self._end)
            return
        one, many = tables.UNITS[unit]
        name = one if digits == "1" else many
        if self._british:
            name = " ".join(re.sub(r"(met|lit)er(s?)$", r"\1re\2", item) for item in name.split())
        self._sign(start)
        self._say(self._number_words(digits), start, start + len(digits) if space else end)
        self._say(name, start + len(digits) + 1 if space else start, end)

    def _sign(self, start: int) -> None:
        """Say the minus before a number, which is a sign only where no letter or digit touches it."""
        before = self._text[:start]
        if before.endswith(("-", "−")) and not before[-2:-1].isalnum():
            self._say("minus", start - 1, start)

    def _range(self, text: str, start: int, end: int) -> None:
        left, right = re.split(r"\s?[–-]\s?", text)
        years = all(re.fullmatch(r"1[1-9]\d\d|20\d\d", side) for side in (left, right))
        if years or (re.fullmatch(r"1[1-9]\d\d|20\d\d", left) and re.fullmatch(r"\d\d", right)):
            spoken = [numbers.year(left, british=self._british), self._year_or_tail(right)]
        else:
            spoken = [self._number_words(left), self._number_words(right)]
        self._say([*spoken[0], "to", *spoken[1]], start, end)

    def _year_or_tail(self, digits: str) -> list[str]:
        return numbers.year(digits, british=self._british) if len(digits) == 4 else self._cardinal(digits)

    def _number(self, text: str, start: int, end: int) -> None:
        self._sign(start)
        before, after = self._previous_word(start).lower(), self._next_word(end).lower()
        if text.isdecimal() and len(text) <= 2 and 1 <= int(text) <= 31:
            direct_before = re.search(r"[A-Za-z]\.?\s+$", self._text[:start]) is not None
            if before in tables.MONTHS and direct_before and not (before == "may" and not self._capital_before(start)):
                self._say(numbers.ordinal(text, british=self._british), start, end)
                return
            direct_after = re.match(r"\s+[A-Z]", self._text[end:]) is not None
            if after in tables.MONTHS and direct_after:
                article = [] if before == "the" else ["the"]
                self._say([*article, *numbers.ordinal(text, british=self._british), "of"], start, end)
                return
        if re.fullmatch(r"1[1-9]\d\d|20\d\d", text):
            self._say(numbers.year(text, british=self._british), start, end)
            return
        if len(text) > numbers.LONGEST_CARDINAL and text.isdecimal():
            for i, digit in enumerate(text):  # a span for each, so that a long one can be cut
                self._say(numbers.one_by_one(digit), start + i, start + i + 1)
            return
        self._say(self._number_words(text), start, end)

    def _capital_before(self, start: int) -> bool:
        return self._previous_word(start)[:1].isupper()

    def _numeral(self, text: str, start: int, end: int) -> None:
        """Superscripts, fractions, circled numbers, and letters of any other script."""
        if text in tables.VULGAR_FRACTIONS:
            top, bottom = tables.VULGAR_FRACTIONS[text]
            mixed = start > 0 and self._text[start - 1].isdecimal()
            halves = numbers.fraction(top, bottom, british=self._british)
            self._say(["and", *(["a", *halves[1:]] if top == "1" else halves)] if mixed else halves, start, end)
        else:
            value = unicodedata.numeric(text, -1.0)
            if value >= 0 and value == int(value) and value < 1e15:
                self._say(self._cardinal(str(int(value))), start, end)
            else:
                self._say([text], start, end)
