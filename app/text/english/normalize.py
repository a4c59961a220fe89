"""English text to the words that are spoken for it.

One regular expression finds what is not a plain word (numbers, dates, times, money, units, addresses, symbols);
each kind has a method that says it. Every letter and digit of the text ends up inside the span of some word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from app.text.canonical import canonical
from app.text.english import numbers, tables
from app.text.english.patterns import FINDER, SIGN
from app.text.english.quantities import Quantities
from app.text.pieces import Piece, word

_CAMEL: Final = re.compile(r"\d+|[A-Z]{2,}(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W\d_]+")


def normalize(text: str, offset: int = 0, *, british: bool = False) -> list[Piece]:
    """Return the words and marks that speak `text`, which begins at character `offset` of the whole request."""
    return _Normalizer(canonical(text), offset, british).run()


class _Normalizer(Quantities):
    """The methods for all other kinds, and the loop over the text."""

    def run(self) -> list[Piece]:
        while (match := FINDER.search(self._text, self._end)) is not None:
            kind = match.lastgroup or ""
            self._end = match.end()  # a method may give characters back
            handler: Callable[[str, int, int], None] = getattr(self, f"_{kind}")
            handler(match.group(), match.start(), match.end())
        return self._out

    def _url(self, text: str, start: int, end: int) -> None:
        trimmed = text.rstrip(".,;:!?'\")]}")
        self._end = start + len(trimmed)
        scheme, separator, rest = trimmed.rpartition("://")
        if scheme not in ("", "http", "https"):
            rest = scheme + separator + rest
        self._say(self._address(rest.rstrip("/")), start, self._end)

    def _filename(self, text: str, start: int, end: int) -> None:
        self._say(self._address(text), start, end)

    def _dot_name(self, text: str, start: int, end: int) -> None:
        self._say("dot", start, end)

    def _email(self, text: str, start: int, end: int) -> None:
        trimmed = text.rstrip(".-")
        self._end = start + len(trimmed)
        self._say(self._address(trimmed), start, self._end)

    def _address(self, address: str) -> list[str]:
        """An address as it is read aloud: names as words, signs by name."""
        spoken: list[str] = []
        for part in re.findall(r"\d+|[^\W\d_]+|.", address):
            if part.isdecimal():
                spoken += self._digits_in_name(part)
            elif part.lower() == "www":
                spoken += ["W", "W", "W"]
            elif part[0].isalnum():
                spell = len(part) <= 3 and part.lower() not in tables.SPOKEN_DOMAINS and _is_unspeakable(part)
                spoken += list(part.upper()) if spell and part.isascii() else [part.lower()]
            else:
                spoken += tables.ADDRESS_SIGNS.get(part, "").split()
        return spoken or ["link"]

    def _roman(self, text: str, start: int, end: int) -> None:
        value = numbers.roman(text)
        before = self._previous_word(start)
        named = before[:1].isupper()
        if value is not None and before.lower() in tables.NUMBERED_THINGS and (named or len(text) > 1):
            self._say(self._cardinal(str(value)), start, end)
        elif value is not None and named and before.lower() in tables.REGNAL_NAMES and value < 40:
            following = self._next_word(end)
            if len(text) > 1 or not following or following in tables.AFTER_REGNAL or self._text[end : end + 1] in ".,;":
                self._say(["the", *numbers.ordinal(str(value), british=self._british)], start, end)
            else:
                self._say([text], start, end, tag="PRP" if text == "I" else None)
        elif value is not None and len(text) > 1 and "L" not in text and (named or len(text) > 2):
            self._say(self._cardinal(str(value)), start, end)
        else:
            self._say([text], start, end, tag="PRP" if text == "I" else None)

    def _mixed(self, text: str, start: int, end: int) -> None:
        """Letters and digits in one word: "B2B", "mp3", "GPT4", "v2"."""
        spoken: list[str] = []
        for part in re.findall(r"\d+|\D+", text):
            if part.isdecimal():
                spoken += self._digits_in_name(part)
            elif spoken == [] and part.lower() == "v":
                spoken.append("version")
            elif part.isascii() and (len(part) <= 2 or part.isupper() or _is_unspeakable(part)):
                spoken += [letter.upper() for letter in part if letter.isalpha()]
            else:
                spoken.append(part)
        self._say(spoken, start, end)

    def _word(self, text: str, start: int, end: int) -> None:
        lower = text.lower()
        if lower == "vs":
            self._say("versus", start, end)
        elif text == "St" and self._next_word(end)[:1].isupper():
            self._say("saint", start, end)
        elif start > 0 and lower in ("s", "t", "d", "ll", "re", "ve", "m") and self._text[start - 1] == "'":
            glued = start < 2 or not self._text[start - 2].isspace()
            self._out.append(word("'" + text, self._offset + start - 1, self._offset + end, glued=glued))
        else:
            self._out.append(word(text, self._offset + start, self._offset + end))

    def _initials(self, text: str, start: int, end: int) -> None:
        lower = re.sub(r"\s", "", text.lower())
        known = tables.LATIN.get(lower) or tables.LATIN.get(lower + ".")
        letters = [letter.upper() for letter in text if letter.isalpha()]
        self._say(known or letters, start, end)
        if text.endswith("."):
            self._full_stop_if_last(end)

    def _latin(self, text: str, start: int, end: int) -> None:
        self._say(tables.LATIN[text], start, end)
        if text.endswith("."):
            self._full_stop_if_last(end)

    def _abbreviation(self, text: str, start: int, end: int) -> None:
        name = text[:-1]
        lower = name.lower()
        following = self._next_word(end)
        spoken = ""
        if lower in tables.BEFORE_NUMBER and re.match(r"\s*\d", self._text[end:]):
            spoken = tables.BEFORE_NUMBER[lower]
        elif name == "St":
            # "Main St., London" and "Main St. is" are streets, "St. John" is a saint.
            street = self._previous_word(start)[:1].isupper() and self._text[end : end + 1] == ","
            spoken = "saint" if following[:1].isupper() and not street else "street"
        elif name == "Dr":
            spoken = "drive" if self._previous_word(start)[:1].isupper() and following[:1].islower() else "doctor"
        elif name == "Ft" and following[:1].isupper():
            spoken = "fort"
        elif len(name) == 1 and name.isupper():
            if following[:1].isupper() and (name != "I" or not self._out or self._out[-1].text[:1].isupper()):
                self._say([name], start, end, tag="LETTERS")
                return
        elif lower in tables.ABBREVIATIONS and (
            lower not in tables.ONLY_CAPITALISED or (name[0].isupper() and self._is_not_end(end))
        ):
            spoken = tables.ABBREVIATIONS[lower]
        if spoken:
            self._say(spoken, start, end)
            self._full_stop_if_last(end)
            return
        # An ordinary word and its full stop.
        self._end = end - 1
        match = FINDER.match(self._text[start : end - 1])
        handler: Callable[[str, int, int], None] = self._roman if match and match.lastgroup == "roman" else self._word
        handler(name, start, end - 1)

    def _is_not_end(self, end: int) -> bool:
        return bool(self._text[end:].strip().strip("\"')]}"))

    def _hashtag(self, text: str, start: int, end: int) -> None:
        name = text[1:]
        if name.isdecimal():
            self._say(["number", *self._cardinal(name)], start, end)
        else:
            self._say(["hashtag", *self._name_parts(name)], start, end)

    def _handle(self, text: str, start: int, end: int) -> None:
        self._say(["at", *self._name_parts(text[1:])], start, end)

    def _name_parts(self, name: str) -> list[str]:
        spoken: list[str] = []
        for part in _CAMEL.findall(name):
            spoken += self._digits_in_name(part) if part.isdecimal() else [part]
        return spoken or [name]

    def _ellipsis(self, text: str, start: int, end: int) -> None:
        self._pause("…", start, end)

    def _dash(self, text: str, start: int, end: int) -> None:
        if text == "–" and self._is_span(start, end):
            self._say("to", start, end)
        else:
            self._pause("—", start, end)

    def _is_span(self, start: int, end: int) -> bool:
        """Whether a dash stands between two amounts or times: "$20-$30", "7 p.m.–9 p.m."."""
        return self._text[start - 1 : start] not in ("", " ") and re.match(rf"\d|{SIGN}", self._text[end:]) is not None

    def _operator(self, text: str, start: int, end: int) -> None:
        spoken = tables.OPERATORS.get(text, "")
        if spoken:
            self._say(spoken, start, end)

    def _sharp(self, text: str, start: int, end: int) -> None:
        self._say([text[0], "sharp"], start, end)

    def _mark(self, text: str, start: int, end: int) -> None:
        if text == ":" and self._text[end : end + 1].isdecimal():
            if self._text[start - 1 : start].isdecimal():
                self._say("to", start, end)
            return
        self._pause("?" if "?" in text else "!" if "!" in text else text[0], start, end)

    def _bracket(self, text: str, start: int, end: int) -> None:
        if text == "(" or (text == ")" and re.match(r"\s+[^\W_]", self._text[end:])):
            self._pause(",", start, end)

    def _symbol(self, text: str, start: int, end: int) -> None:
        before, after = self._text[:start].rstrip()[-1:], self._text[end:].lstrip()[:1]
        between = before.isdecimal() and after.isdecimal()
        if text == "-" and re.match(SIGN, self._text[end:]) and self._text[start - 1 : start].isdecimal():
            self._say("to", start, end)
        elif text == "^" and before.isalnum() and after.isalnum():
            self._say(tables.ONLY_BETWEEN_NUMBERS[text], start, end)
        elif text in ("-", "−"):
            if between and self._text[start - 1 : start].isspace() and self._text[end : end + 1].isspace():
                self._say("minus", start, end)
        elif text == "/" and self._out and re.match(r"[A-Za-z]", self._text[end:]) and _is_measure(self._out[-1].text):
            self._say("per", start, end)
        elif text == "~" and after.isdecimal() and not between:
            self._say("about", start, end)
        elif text in tables.ONLY_BETWEEN_NUMBERS:
            spaced = self._text[start - 1 : start].isspace() and self._text[end : end + 1].isspace()
            if between or (text in "<>" and spaced and before and after):
                self._say(tables.ONLY_BETWEEN_NUMBERS[text], start, end)
        elif text in "=#" and (self._text[start - 1 : start] == text or not after):
            return
        elif text in tables.SPOKEN_SYMBOLS and text not in "#©®™":
            self._say(tables.SPOKEN_SYMBOLS[text], start, end)


def _is_unspeakable(letters: str) -> bool:
    """Whether letters without a vowel can only be spelled."""
    return not re.search(r"[aeiouyAEIOUY]", letters)


_MEASURES: Final = frozenset(
    name.split()[-1] for names in (*tables.UNITS.values(), *tables.CURRENCIES.values()) for name in names if name
)


def _is_measure(text: str) -> bool:
    return text in _MEASURES or text in ("million", "billion")
