"""English text to the words that are spoken for it.

One regular expression (`patterns.FINDER`) finds the tokens: plain words, numbers, dates, times, money, units,
addresses, symbols. Each kind of token has a reader function, which adds pieces to a `NormalizerContext`. This module
reads punctuation marks; `g2p.READERS` lists the readers of all modules. Every letter and digit of the text lies in the
span of some word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from app.text.english import numbers, tables
from app.text.english.patterns import CALENDAR, FINDER, SIGN
from app.text.pieces import Piece, append_mark, canonical, word

_NEARBY: Final = 40
"""Characters on either side of a token that may decide its reading."""
_PREVIOUS: Final = re.compile(r"([^\W_]+)[.,]?\s*$")
_NEXT: Final = re.compile(r"[\s,]*([^\W_]+)")
_NOUN: Final = re.compile(r"\s(?:\d{1,2}[A-Za-z]\s)?([a-z]+|[A-Z]{2,4}\b)")
_CAN: Final = re.compile(r"\scan(?=\s*(?:[.,;:!?)]|$)|\s(?:of|and|or|in|on|for|with|is|was)\b)")  # the noun
_ARTICLE: Final = re.compile(
    r"\b(?:[Aa]n?|[Tt]he|[Tt]his|[Tt]hat|[Ee]very|[Ee]ach|[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur|[Tt]heir)\s$"
)
_LETTER_BEFORE: Final = re.compile(r"(?<![\w-])[A-Z]$")
_LETTER_AFTER: Final = re.compile(r"[A-Z](?![\w-])")
_SPAN_AFTER: Final = re.compile(rf"\d|{SIGN}|{CALENDAR}(?!\w)")


class NormalizerContext:
    """One text that is being normalized. A reader function adds the pieces that speak its token.

    Positions are characters of `text`, which begins at character `offset` of the request.
    """

    def __init__(self, text: str, offset: int, british: bool) -> None:
        self.text = text
        self.offset = offset
        self.british = british
        self.pieces: list[Piece] = []
        self.end = 0  # end of the current token; a reader may give characters back, or take more

    def say(self, words: list[str] | str, start: int, end: int, *, tag: str | None = None) -> None:
        """Add words that speak [start, end). Single capital letters in a row become one spelled word, as in "PM"."""
        letters = ""
        for item in [*(words.split() if isinstance(words, str) else words), ""]:
            if tag is None and len(item) == 1 and item.isupper():
                letters += item
                continue
            if letters:
                self.add(letters, start, end, "LETTERS")
                letters = ""
            if item:
                self.add(item, start, end, tag)

    def add(self, text: str, start: int, end: int, tag: str | None) -> None:
        """Add one word that speaks [start, end)."""
        self.pieces.append(word(text, self.offset + start, self.offset + end, tag=tag))

    def pause(self, mark: str, start: int, end: int) -> None:
        """Add a punctuation mark. See `append_mark`."""
        append_mark(self.pieces, mark, self.offset + start, self.offset + end)

    def is_last(self, end: int) -> bool:
        """Return whether only spaces and closing marks follow."""
        return not self.text[end:].strip().strip("\"')]}")

    def full_stop_if_last(self, end: int) -> None:
        """Add the full stop of an abbreviation if it also ends the sentence."""
        if self.is_last(end):
            self.pause(".", end - 1, end)

    def cardinal(self, digits: str) -> list[str]:
        """Return a cardinal as words."""
        return numbers.cardinal(digits, british=self.british)

    def number_words(self, digits: str) -> list[str]:
        """Return a cardinal or decimal with its sign as words."""
        sign = ["minus"] if digits[:1] in ("-", "−") else []
        digits = digits.lstrip("-−")
        whole, point, fraction = digits.partition(".")
        if point:
            return [*sign, *numbers.decimal(whole, fraction, british=self.british)]
        return [*sign, *self.cardinal(whole)]

    def before(self, start: int) -> str:
        """Return the text shortly before `start`."""
        return self.text[max(0, start - _NEARBY) : start]

    def after(self, end: int) -> str:
        """Return the text shortly after `end`."""
        return self.text[end : end + _NEARBY]

    def previous_word(self, start: int) -> str:
        """Return the word before `start`, or ""."""
        found = _PREVIOUS.search(self.before(start))
        return found.group(1) if found else ""

    def next_word(self, end: int) -> str:
        """Return the word after `end`, or ""."""
        found = _NEXT.match(self.after(end))
        return found.group(1) if found else ""

    def describes_noun(self, start: int, end: int) -> bool:
        """Return whether a measure describes the next noun, and so is singular: "a $5 bill"."""
        noun = _NOUN.match(self.text, end)
        return (
            noun is not None
            and (noun.group(1) not in tables.NO_NOUN or _CAN.match(self.text, end) is not None)
            and _ARTICLE.search(self.before(start)) is not None
        )

    def join_range(self, end: int, following: re.Pattern[str], spoken: str = "to") -> None:
        """Read the dash at `end` if `following` finds another value of the same kind after it."""
        found = following.match(self.text, end)
        if found is not None:
            self.say(spoken, found.start("dash"), found.end("dash"))
            self.end = found.end()

    def accented(self, name: str) -> str:
        """Return the name of a unit in the spelling of the accent: "metre" in British English."""
        if not self.british:
            return name
        return " ".join(re.sub(r"(met|lit)er(s?)$", r"\1re\2", item) for item in name.split())

    def digits_in_name(self, digits: str) -> list[str]:
        """Return the words of digits that name something: in pairs, or one by one."""
        if digits.startswith("0") or len(digits) > 4:
            return numbers.one_by_one(digits)
        if len(digits) == 4:
            return numbers.year(digits, british=False)
        if len(digits) == 3 and not digits.endswith("00"):
            tail = ["oh", *self.cardinal(digits[2])] if digits[1] == "0" else self.cardinal(digits[1:])
            return [*self.cardinal(digits[0]), *tail]
        return self.cardinal(digits)


Reader = Callable[[NormalizerContext, str, int, int], None]
"""Function that adds the pieces for one kind of token: its text is [start, end) of `context.text`."""


def normalize(text: str, offset: int, readers: Mapping[str, Reader], *, british: bool) -> list[Piece]:
    """Return the words and marks that speak `text`.

    Args:
        text: Part of the text of a request.
        offset: Character of the request at which `text` begins.
        readers: Reader of each kind of token, by the name of its group in `patterns.FINDER`.
        british: Whether to read in British English instead of American.
    """
    context = NormalizerContext(canonical(text), offset, british)
    while (match := FINDER.search(context.text, context.end)) is not None:
        context.end = match.end()
        kind = match.lastgroup or ""
        count = len(context.pieces)
        readers[kind](context, match.group(), match.start(), match.end())
        for piece in context.pieces[count:]:
            piece.rule = kind
    return context.pieces


def read_ellipsis(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read an ellipsis: `Well...`."""
    context.pause("…", start, end)


def read_dash(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a dash: `yes – no`."""
    # Between two amounts, times or letters: "$20-$30", "7 p.m.–9 p.m.", "A–Z".
    letters = _LETTER_BEFORE.search(context.before(start)) and _LETTER_AFTER.match(context.text, end)
    amounts = context.text[start - 1 : start] not in ("", " ") and _SPAN_AFTER.match(context.text, end)
    if text == "–" and (letters or amounts):
        context.say("to", start, end)
    else:
        context.pause("—", start, end)


def read_mark(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a punctuation mark, or the colon between two numbers: `Yes!`."""
    if text == ":" and context.text[end : end + 1].isdecimal():
        number = re.search(r"\d+$", context.text[max(0, start - 4) : start])
        if number is not None and context.previous_word(start - len(number.group())).lower() not in tables.VERSED:
            context.say("to", start, end)
        return
    context.pause("?" if "?" in text else "!" if "!" in text else text[0], start, end)


def read_bracket(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a bracket as a pause: `a (b) c`."""
    if text == "(" or (text == ")" and re.match(r"\s+[^\W_]", context.text[end : end + 8])):
        context.pause(",", start, end)
