"""Abbreviations whose full stops end no sentence."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from app.text.word_sets import word_set
from app.text.written.german_ordinals import ordinal_continues
from app.text.written.language import FILES, either, get_language

LAST_TOO: Final = word_set(
    "etc. ecc. a.C. d.C. a.m. p.m. S.A. S.p.A. EE.UU. Ltda. Cia. usw. usf. o.Ä. u.Ä. v.Chr. n.Chr. MwSt. Hbf. Jh."
) | {
    "a. C.",
    "d. C.",
    "a. m.",
    "p. m.",
    "EE. UU.",
    "av. J.-C.",
    "apr. J.-C.",
    "o. Ä.",
    "u. Ä.",
    "v. Chr.",
    "n. Chr.",
}
"""Abbreviations that may end a sentence as well: it does if a capital follows."""


@cache
def pattern(tag: str) -> re.Pattern[str]:
    """Return the expression of a language's abbreviations, a tag of `language.FILES`."""
    language = get_language(tag)
    stopped = [unit for unit in language.units if "." in unit]
    return re.compile(rf"(?<![\w.])(?:{either((*language.abbreviations, *stopped))})(?!\w)")


_INITIALS: Final = re.compile(r"(?<![\w.])[A-ZÀ-Ý]\.-[A-ZÀ-Ý]\.$")

# An initial after an abbreviated title, or "of".
_TITLED: Final = re.compile(r"(?:\.(?:[a-zª]{1,4})?|\b(?:de|da|do|di|del|par|por))\s[A-ZÀ-Ý]\.$")


@cache
def _numbered(tag: str) -> re.Pattern[str] | None:
    """Return the expression of the abbreviations that are read before a number: those of pages, months and days."""
    if tag == "de":
        return None
    tables = get_language(tag).tables
    forms = {form.rstrip(".") for name in ("before_number", "day", "month") for form in tables[name]}
    return re.compile(rf"(?<![\w.])(?:{either(forms)})\.$", re.IGNORECASE)


# "petit déj. en sus": a short word before small letters is more often cut short than the last of a sentence.
_SHORT: Final = re.compile(r"(?:(?<![\w.'’])|(?<=\d))[a-zà-ÿ]{1,4}\.$")
_NUMBER: Final = re.compile(r"(?:de\s)?\d|[IVX]+(?!\w)|[A-Z](?!\w)|(?:e|y|et|a|à|al|au|ao|até)\s|[(+]\d|[-–]")
_BEFORE_DATE: Final = re.compile(r"(?:\d\s(?:de\s)?|\b(?:el|los|le|ce|il|lo|na|no|este|esta|questo|desde|jusqu'à)\s)$")


@cache
def _tag(language: str) -> str | None:
    return next((tag for tag in FILES if tag.partition("-")[0] == language), None)


def continues_sentence(language: str, before: str, after: str) -> bool:
    """Return whether a sentence of `language` goes on in `after`: `before` ends with or inside an abbreviation."""
    tag, following = _tag(language), after.lstrip()
    if tag is None or not following:
        return False
    stem = before.rstrip()
    if (_INITIALS.search(stem) or _TITLED.search(stem)) and following[0].isupper():
        return True
    # "U.S.A.": nothing stands between the letters.
    if stem == before and stem.endswith(".") and after[0].isalnum():
        return True
    if stem.endswith(".") and following[0] in ",;:)":
        return True
    if stem == before and re.search(r"\s\.$", stem) and after[0] in "/\\":
        return True  # "./build"
    for match in pattern(tag).finditer(before + after):
        if match.start() < len(stem) < match.end():
            return True
        if match.end() == len(stem):
            ends = match.group() in LAST_TOO and following[0].isupper()
            return not ends or pattern(tag).match(following) is not None
    numbered = _numbered(tag)
    if numbered is not None and (short := numbered.search(stem)):
        # "5 de feb. a las 9": a day and its month, or "el lun. por la tarde".
        dated = _BEFORE_DATE.search(stem[: short.start()]) is not None and following[0].islower()
        if dated or _NUMBER.match(following):
            return True
    if numbered is not None and _SHORT.search(stem) and following[0].islower():
        return True
    return tag == "de" and ordinal_continues(stem, following)
