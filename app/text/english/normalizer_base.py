"""What all of English normalization stands on: the text, the pieces said so far, and ways to say more."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import numbers, tables
from app.text.pieces import Piece, append_mark, word

_NEARBY: Final = 40
"""Characters on either side of a token that may decide how it is read."""
_PREVIOUS: Final = re.compile(r"([^\W_]+)[.,]?\s*$")
_NEXT: Final = re.compile(r"[\s,]*([^\W_]+)")
_NOUN: Final = re.compile(r"\s([a-z]+)")
_ARTICLE: Final = re.compile(
    r"\b(?:[Aa]n?|[Tt]he|[Tt]his|[Tt]hat|[Ee]very|[Ee]ach|[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur|[Tt]heir)\s$"
)


class Speaker:
    """One sentence on its way from text to pieces."""

    def __init__(self, text: str, offset: int, british: bool) -> None:
        self._text = text
        self._offset = offset
        self._british = british
        self._out: list[Piece] = []
        self._end = 0  # where the current match ends

    def _say(self, words: list[str] | str, start: int, end: int, *, tag: str | None = None) -> None:
        """Add words that speak [start, end). Capital letters in a row are spelled as one word, as in "PM"."""
        letters = ""
        for item in [*(words.split() if isinstance(words, str) else words), ""]:
            if tag is None and len(item) == 1 and item.isupper():
                letters += item
                continue
            if letters:
                self._add(letters, start, end, "LETTERS")
                letters = ""
            if item:
                self._add(item, start, end, tag)

    def _add(self, text: str, start: int, end: int, tag: str | None) -> None:
        self._out.append(word(text, self._offset + start, self._offset + end, tag=tag))

    def _pause(self, mark: str, start: int, end: int) -> None:
        append_mark(self._out, mark, self._offset + start, self._offset + end)

    def _full_stop_if_last(self, end: int) -> None:
        """A full stop that ends an abbreviation ends the sentence too, where nothing follows."""
        if not self._text[end:].strip().strip("\"')]}"):
            self._pause(".", end - 1, end)

    def _cardinal(self, digits: str) -> list[str]:
        return numbers.cardinal(digits, british=self._british)

    def _number_words(self, digits: str) -> list[str]:
        """A cardinal or decimal with its sign."""
        sign = ["minus"] if digits[:1] in ("-", "−") else []
        digits = digits.lstrip("-−")
        whole, point, fraction = digits.partition(".")
        if point:
            return [*sign, *numbers.decimal(whole, fraction, british=self._british)]
        return [*sign, *self._cardinal(whole)]

    def _before(self, start: int) -> str:
        """The text shortly before `start`."""
        return self._text[max(0, start - _NEARBY) : start]

    def _after(self, end: int) -> str:
        """The text shortly after `end`."""
        return self._text[end : end + _NEARBY]

    def _previous_word(self, start: int) -> str:
        found = _PREVIOUS.search(self._before(start))
        return found.group(1) if found else ""

    def _next_word(self, end: int) -> str:
        found = _NEXT.match(self._after(end))
        return found.group(1) if found else ""

    def _describes(self, start: int, end: int) -> bool:
        """Whether a measure stands before a noun that it describes, and is read in the singular: "a $5 bill"."""
        noun = _NOUN.match(self._text, end)
        return (
            noun is not None
            and noun.group(1) not in tables.NO_NOUN
            and _ARTICLE.search(self._before(start)) is not None
        )

    def _to(self, end: int, following: re.Pattern[str], spoken: str = "to") -> None:
        """Say the dash between what was said up to `end` and another of its kind, which `following` finds."""
        found = following.match(self._text, end)
        if found is not None:
            self._say(spoken, found.start("dash"), found.end("dash"))
            self._end = found.end()

    def _accented(self, name: str) -> str:
        if not self._british:
            return name
        return " ".join(re.sub(r"(met|lit)er(s?)$", r"\1re\2", item) for item in name.split())

    def _digits_in_name(self, digits: str) -> list[str]:
        if digits.startswith("0") or len(digits) > 4:
            return numbers.one_by_one(digits)
        if len(digits) == 4:
            return numbers.year(digits, british=False)
        if len(digits) == 3 and not digits.endswith("00"):
            tail = ["oh", *self._cardinal(digits[2])] if digits[1] == "0" else self._cardinal(digits[1:])
            return [*self._cardinal(digits[0]), *tail]
        return self._cardinal(digits)
