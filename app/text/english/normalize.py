"""English text to the words that are spoken for it.

One regular expression finds what is not a plain word (numbers, dates, times, money, units, addresses, symbols);
each kind has a method that says it. Every letter and digit of the text ends up inside the span of some word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from app.text.english import tables
from app.text.english.abbreviations import Abbreviations
from app.text.english.measures import Measures
from app.text.english.names import Names
from app.text.english.patterns import FINDER, SIGN
from app.text.pieces import Piece
from app.text.unicode import canonical

_SPAN_AFTER: Final = re.compile(rf"\d|{SIGN}")
_LETTER_BEFORE: Final = re.compile(r"(?:^|[^\w</])\w$")
_LETTER_AFTER: Final = re.compile(r"\w(?!\w)")
_MARK_BEFORE: Final = re.compile(r"\d\.\d+$")
_FULL_MARK: Final = re.compile(r"(?:5|10|20|100)(?![\d.])")
_COMPARED: Final = re.compile(rf"\s?(?:{SIGN})?\d")


def normalize(text: str, offset: int = 0, *, british: bool = False) -> list[Piece]:
    """Return the words and marks that speak `text`, which begins at character `offset` of the whole request."""
    return _Normalizer(canonical(text), offset, british).run()


class _Normalizer(Measures, Names, Abbreviations):
    """The methods for marks and symbols, and the loop over the text."""

    def run(self) -> list[Piece]:
        while (match := FINDER.search(self._text, self._end)) is not None:
            self._end = match.end()  # a method may give characters back, or take more
            handler: Callable[[str, int, int], None] = getattr(self, f"_{match.lastgroup}")
            said = len(self._out)
            handler(match.group(), match.start(), match.end())
            for piece in self._out[said:]:
                piece.rule = match.lastgroup or ""
        return self._out

    def _ellipsis(self, text: str, start: int, end: int) -> None:
        self._pause("…", start, end)

    def _dash(self, text: str, start: int, end: int) -> None:
        if text == "–" and self._is_span(start, end):
            self._say("to", start, end)
        else:
            self._pause("—", start, end)

    def _is_span(self, start: int, end: int) -> bool:
        """Whether a dash stands between two amounts or times: "$20-$30", "7 p.m.–9 p.m."."""
        return self._text[start - 1 : start] not in ("", " ") and _SPAN_AFTER.match(self._text, end) is not None

    def _operator(self, text: str, start: int, end: int) -> None:
        spoken = tables.OPERATORS.get(text, "")
        if spoken:
            self._say(spoken, start, end)

    def _sharp(self, text: str, start: int, end: int) -> None:
        self._say([text[0], "sharp"], start, end)

    def _grade(self, text: str, start: int, end: int) -> None:
        self._say([text[0]], start, start + 1)
        self._say("minus", start + 1, end)

    def _mark(self, text: str, start: int, end: int) -> None:
        if text == ":" and self._text[end : end + 1].isdecimal():
            number = re.search(r"\d+$", self._text[max(0, start - 4) : start])
            if number is not None and self._previous_word(start - len(number.group())).lower() not in tables.VERSED:
                self._say("to", start, end)
            return
        self._pause("?" if "?" in text else "!" if "!" in text else text[0], start, end)

    def _bracket(self, text: str, start: int, end: int) -> None:
        if text == "(" or (text == ")" and re.match(r"\s+[^\W_]", self._text[end : end + 8])):
            self._pause(",", start, end)

    def _symbol(self, text: str, start: int, end: int) -> None:
        before, after = self._before(start).rstrip()[-1:], self._after(end).lstrip()[:1]
        left, right = self._text[start - 1 : start], self._text[end : end + 1]
        between, spaced = before.isdecimal() and after.isdecimal(), left.isspace() and right.isspace()
        if text in ("-", "−"):
            if spaced and after.isdecimal() and (before.isdecimal() or before in "²³") and before:
                self._say("minus", start, end)
        elif text == "/":
            if between:
                marked = _MARK_BEFORE.search(self._before(start)) and _FULL_MARK.match(self._text, end)
                self._say("out of" if marked else "divided by", start, end)
            elif right.isalpha():
                self._per(start)
        elif text == "~" and (after.isdecimal() or (after and after in "$£€¥.")) and not between:
            self._say("about", start, end)
        elif text in "<>":
            letters = _LETTER_BEFORE.search(self._before(start)) and _LETTER_AFTER.match(self._text, end)
            if (
                letters
                or (right and _COMPARED.match(self._text, end) and not right.isspace())
                or (spaced and before and after)
            ):
                self._say(tables.SPOKEN_SYMBOLS[text], start, end)
        elif text in tables.ONLY_BETWEEN_NUMBERS:
            if between:
                self._say(tables.ONLY_BETWEEN_NUMBERS[text], start, end)
        elif text in "©§¶№↑↓":
            self._label(text, left, right, after, start, end)
        elif text in "=#" and (left == text or not after):
            return
        elif text in tables.SPOKEN_SYMBOLS and text not in "#®™":
            self._say(tables.SPOKEN_SYMBOLS[text], start, end)

    def _label(self, text: str, left: str, right: str, after: str, start: int, end: int) -> None:
        """A sign that names what follows it: "© 2024", "§§ 5-7"."""
        repeated = text == "©" and self._previous_word(start).lower() == "copyright"
        if right != text and after.isalnum() and not repeated and (text not in "↑↓" or after.isdecimal()):
            name = tables.SPOKEN_SYMBOLS[text]
            self._say(name + "s" if left == text else name, start, end)
