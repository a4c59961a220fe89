"""Readings of punctuation marks and symbols."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import measures, tables
from app.text.english.normalizer_context import NormalizerContext, Reader
from app.text.english.patterns import SIGN

_SPAN_AFTER: Final = re.compile(rf"\d|{SIGN}")
_LETTER_BEFORE: Final = re.compile(r"(?:^|[^\w</])\w$")
_LETTER_AFTER: Final = re.compile(r"\w(?!\w)")
_MARK_BEFORE: Final = re.compile(r"\d\.\d+$")
_FULL_MARK: Final = re.compile(r"(?:5|10|20|100)(?![\d.])")
_COMPARED: Final = re.compile(rf"\s?(?:{SIGN})?\d")


def read_ellipsis(context: NormalizerContext, text: str, start: int, end: int) -> None:
    context.pause("…", start, end)


def read_dash(context: NormalizerContext, text: str, start: int, end: int) -> None:
    if text == "–" and _is_span(context, start, end):
        context.say("to", start, end)
    else:
        context.pause("—", start, end)


def _is_span(context: NormalizerContext, start: int, end: int) -> bool:
    """Whether a dash stands between two amounts or times: "$20-$30", "7 p.m.–9 p.m."."""
    return context.text[start - 1 : start] not in ("", " ") and _SPAN_AFTER.match(context.text, end) is not None


def read_operator(context: NormalizerContext, text: str, start: int, end: int) -> None:
    spoken = tables.OPERATORS.get(text, "")
    if spoken:
        context.say(spoken, start, end)


def read_sharp(context: NormalizerContext, text: str, start: int, end: int) -> None:
    context.say([text[0], "sharp"], start, end)


def read_grade(context: NormalizerContext, text: str, start: int, end: int) -> None:
    context.say([text[0]], start, start + 1)
    context.say("minus", start + 1, end)


def read_mark(context: NormalizerContext, text: str, start: int, end: int) -> None:
    if text == ":" and context.text[end : end + 1].isdecimal():
        number = re.search(r"\d+$", context.text[max(0, start - 4) : start])
        if number is not None and context.previous_word(start - len(number.group())).lower() not in tables.VERSED:
            context.say("to", start, end)
        return
    context.pause("?" if "?" in text else "!" if "!" in text else text[0], start, end)


def read_bracket(context: NormalizerContext, text: str, start: int, end: int) -> None:
    if text == "(" or (text == ")" and re.match(r"\s+[^\W_]", context.text[end : end + 8])):
        context.pause(",", start, end)


def read_symbol(context: NormalizerContext, text: str, start: int, end: int) -> None:
    before, after = context.before(start).rstrip()[-1:], context.after(end).lstrip()[:1]
    left, right = context.text[start - 1 : start], context.text[end : end + 1]
    between, spaced = before.isdecimal() and after.isdecimal(), left.isspace() and right.isspace()
    if text in ("-", "−"):
        if spaced and after.isdecimal() and (before.isdecimal() or before in "²³") and before:
            context.say("minus", start, end)
    elif text == "/":
        if between:
            marked = _MARK_BEFORE.search(context.before(start)) and _FULL_MARK.match(context.text, end)
            context.say("out of" if marked else "divided by", start, end)
        elif right.isalpha():
            measures.read_per(context, start)
    elif text == "~" and (after.isdecimal() or (after and after in "$£€¥.")) and not between:
        context.say("about", start, end)
    elif text in "<>":
        letters = _LETTER_BEFORE.search(context.before(start)) and _LETTER_AFTER.match(context.text, end)
        if (
            letters
            or (right and _COMPARED.match(context.text, end) and not right.isspace())
            or (spaced and before and after)
        ):
            context.say(tables.SPOKEN_SYMBOLS[text], start, end)
    elif text in tables.ONLY_BETWEEN_NUMBERS:
        if between:
            context.say(tables.ONLY_BETWEEN_NUMBERS[text], start, end)
    elif text in "©§¶№↑↓":
        _label(context, text, left, right, after, start, end)
    elif text in "=#" and (left == text or not after):
        return
    elif text in tables.SPOKEN_SYMBOLS and text not in "#®™":
        context.say(tables.SPOKEN_SYMBOLS[text], start, end)


def _label(context: NormalizerContext, text: str, left: str, right: str, after: str, start: int, end: int) -> None:
    """A sign that names what follows it: "© 2024", "§§ 5-7"."""
    repeated = text == "©" and context.previous_word(start).lower() == "copyright"
    if right != text and after.isalnum() and not repeated and (text not in "↑↓" or after.isdecimal()):
        name = tables.SPOKEN_SYMBOLS[text]
        context.say(name + "s" if left == text else name, start, end)


READERS: Final[dict[str, Reader]] = {
    "ellipsis": read_ellipsis,
    "dash": read_dash,
    "operator": read_operator,
    "sharp": read_sharp,
    "grade": read_grade,
    "mark": read_mark,
    "bracket": read_bracket,
    "symbol": read_symbol,
}
