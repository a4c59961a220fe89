"""Raised text: exponents, which become superscripts of Unicode, and marks of notes, which are left out.

Readers of documents put RAISED_BEGIN and RAISED_END around it: what it means shows in the whole paragraph alone.
"""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set

# No text of a document has these.
RAISED_BEGIN: Final = "\x01"
RAISED_END: Final = "\x02"

# Runs that follow each other are one, but a mark after an exponent is another thing.
_NEXT: Final = re.compile(r"\x02\x01(?![\[(*†‡§])")
_RAISED: Final = re.compile(r"(\s{0,3})\x01([^\x01\x02]*)\x02")
_STRAY: Final = str.maketrans("", "", RAISED_BEGIN + RAISED_END)
_NUMBER: Final = re.compile(r"[-+−–‐]?\d{1,4}")
_POWER: Final = re.compile(r"[-−–‐]?(?:\d{1,4}\.\d{1,4}|\d?[nxky](?:\+\d)?|\d/\d{1,2})")
_SMALL: Final = re.compile(r"[-−–‐]\d|[23]")
# "4", "[4]", "1,2", "4–6", "*"; "16a" and "a, b" of Bibles.
_MARK: Final = re.compile(r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,9}|[\[(]\d{1,3}[\])]|[*†‡§¶‖#]{1,4}")
_LETTERS: Final = re.compile(r"\d{0,3}[a-z](?:\s?[,;\s]\s?[a-z]){0,9}|[\[(][a-z][\])]")
# Behind which a letter is the mark of a note: not "M<sup>a</sup>", "3<sup>a</sup>", "XIX<sup>e</sup>".
_NOTED: Final = re.compile(r"(?:\A|[.,;:!?”»’]|(?![IVXLCDM]{2}|[SD]r)[^\W\d_]{2})\Z")
_DIGITS: Final = str.maketrans("0123456789-−–‐", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁻⁻", "+")
_PRICE: Final = re.compile(r"[$€£¥]\s?\d[\d,]{0,12}\.?")
_YEAR: Final = re.compile(r".*[^\W\d_]{2}\s(?:1[5-9]|20)(?!00)\d\d", re.S)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*$")
_WORDS: Final = re.compile(r"[^\W\d_]{2,}")
_DECADE: Final = re.compile(r".*\d\d0['’]?s", re.S)
_NUMERAL: Final = re.compile(r".*[^\W\d_]{3}\s[IVX]", re.S)
_UNITS: Final = word_set("nm µm μm mm cm dm dam hm km ft yd mi ms kg mg ml hl dl kw hz pa mol cd rad")
_FUNCTIONS: Final = word_set("sin cos tan cot sec csc sinh cosh tanh log ln exp")
# Words of two letters in several languages: others of two small letters are products, "mc", "ab".
_SHORT_WORDS: Final = word_set(
    "ad ah am an as at au be by ce da de di do du el en er es et ex go ha he hi ho if il im in is it ja je la le lo me "
    "my na ne no nu of oh ok on or os ou ox pa se si so su te to tu um un up us va wo we ya ye yo zu"
)
_BEFORE: Final = 60


def place_raised(text: str) -> str:
    """Return the text of a paragraph with its raised parts as they are to be read."""
    if RAISED_BEGIN not in text:
        return text
    return _RAISED.sub(_place, _NEXT.sub("", text)).translate(_STRAY)


def _place(found: re.Match[str]) -> str:
    space, raised = found[1], found[2].strip()
    before = found.string[max(0, found.start() - _BEFORE) : found.start()].translate(_STRAY)
    after = found.string[found.end() : found.end() + _BEFORE].translate(_STRAY)
    if raised.isdecimal():
        if re.match(r"[/⁄]\s?\d", after) and not before[-1:].isalpha():
            return f" {raised}" if before[-1:].isdecimal() else space + raised
        if len(raised) == 2 and _PRICE.search(before[-16:]) and before[-1:] in tuple("0123456789."):
            return raised if before.endswith(".") else f".{raised}"
        if before[-1:] in ("-", "‐", "/") or _is_isotope(before, space, raised, after):
            return space + raised
    if "/" in raised and before[-1:].isdecimal():
        return f" {raised}"
    if _takes_exponent(before, raised):
        return raised.translate(_DIGITS) if _NUMBER.fullmatch(raised) else f"^{raised}"
    if not _MARK.fullmatch(raised) and not (_LETTERS.fullmatch(raised) and _NOTED.search(before.rstrip())):
        return space + raised
    return "" if after[:1] in tuple(",.;:!?") else space or " " * after[:1].isalnum()


def _is_isotope(before: str, space: str, raised: str, after: str) -> bool:
    """Return whether a raised number is that of an isotope: "¹⁴C", "C¹⁴"."""
    if space or not before:
        return re.match(r"[A-Z][a-z]?(?![^\W_])", after) is not None
    return len(raised) > 1 and before[-1].isupper() and not before[-2:-1].isalnum()


def _takes_exponent(before: str, raised: str) -> bool:
    """Return whether `raised` is the exponent of what stands before it: of a number, a variable, a unit."""
    if not (before and (_NUMBER.fullmatch(raised) or _POWER.fullmatch(raised))):
        return False
    if before[-1].isdecimal():
        return not _YEAR.fullmatch(before)
    if before[-1] in ")]":
        words = _WORDS.findall(before, max(before.rfind("("), before.rfind("["), 0))
        return not any((len(each) > 2 and each not in _FUNCTIONS) or each.lower() in _SHORT_WORDS for each in words)
    match = _WORD.search(before)
    if match is None:
        return before[-1] in "|∇∂"
    word = match[0]
    if len(word) == 1:
        return not (_NUMERAL.fullmatch(before) or _DECADE.fullmatch(before))
    if (
        word in _FUNCTIONS
        or word.lower() in _UNITS
        or (word == "in" and before[: match.start()].rstrip()[-1:].isdecimal())
    ):
        return _SMALL.fullmatch(raised) is not None
    return len(word) == 2 and word.islower() and word not in _SHORT_WORDS
