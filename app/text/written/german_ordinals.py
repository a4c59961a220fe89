"""Ordinals of German: their endings, by the words around them, and monarchs.

An ordinal is digits and a full stop. Its ending follows from the word before it, and its gender from the noun after it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from app.text.written.language import LanguageWords, get_language
from app.text.written.numbers import roman
from app.text.written.rules import Match, Spoken

_NEUTER_ENDING: Final = re.compile(r"^[A-ZÄÖÜ][a-zäöüß]+(?:chen|lein|um|ment|o|tor|jahr|buch|spiel|mal)$")
_FEMININE: Final = re.compile(r"(?:ung|heit|keit|schaft|ion|tät|e|Liga|Bundesliga|Halbzeit|Woche)$")
_NOMINATIVE: Final = re.compile(r"(?:us|es|as|is|os)$")
_WORDS: Final = re.compile(r"[^\W\d_]+")
_CHAIN: Final = re.compile(r"(?:\b\d{1,4}\.(?:,\s|\s(?:und|u\.|oder|bis)\s))+$")
_LAST_NUMBER: Final = re.compile(r"(?:([^\W\d_]+)\s+)?(?<![\w.,:])\d{1,4}\.$")
_LISTED: Final = re.compile(
    r"[\w)][,;:(]\s?\d{1,2}\.$|\d\.(?:,| und| u\.| oder| bis| sowie)\s\d{1,4}\.$"
)  # "2. Etage, 1. Tür"
_SPAN: Final = re.compile(r"[–-](?=\w)")


@cache
def articles(language: LanguageWords) -> frozenset[str]:
    """Return words before an ordinal that make a number at the end of a sentence one."""
    sets = language.sets
    return ((sets["weak"] | sets["strong"]) - sets["no_articles"]) | sets["other_articles"]


@cache
def _counted_words(language: LanguageWords) -> frozenset[str]:
    """Return words that go on after an ordinal that begins a new word in capitals."""
    return language.sets["ordered"] | {name.lower() for name in (*language.months, *language.tables["month"])}


def ordinal_continues(stem: str, following: str) -> bool:
    """Return whether a sentence goes on after a full stop at the end of `stem`: an ordinal, or a day in a span."""
    if _SPAN.match(following):
        return True
    number, first, language = _LAST_NUMBER.search(stem), _WORDS.match(following), get_language("de")
    if number is None or first is None:
        return False
    before, after = (number.group(1) or "").lower(), first.group().lower()
    if after in _counted_words(language) or before in articles(language):
        return True
    listed = before in ("ein", "als") or _LISTED.search(stem) is not None
    return listed and after not in language.sets["sentence_starts"]


def last_word(match: Match) -> str:
    """Return the last word before a form in small letters, or ""."""
    words = _WORDS.findall(match.before)
    return words[-1].lower() if words else ""


def is_feminine(noun: str, language: LanguageWords) -> bool:
    """Return whether a noun is feminine."""
    noun = noun.capitalize() if noun.isupper() else noun
    return noun in language.sets["feminine"] or _FEMININE.search(noun) is not None


def is_neuter(noun: str, language: LanguageWords) -> bool:
    """Return whether a noun is neuter."""
    return noun.lower() in language.sets["neuter"] or _NEUTER_ENDING.search(noun) is not None


def ordinal(match: Match, language: LanguageWords, value: int, *, day: bool = False) -> str:
    """Return an ordinal with the ending of its place. `day`: it is the day of a month."""
    stem, sets = language.ordinal(value), language.sets
    # "am 2. und 3. Mai": the word before the first one decides.
    before = [word.lower() for word in _WORDS.findall(_CHAIN.sub("", match.before))[-2:]]
    last = before[-1] if before else ""
    if last in sets["weak"] or (last == "der" and len(before) > 1 and before[0] in sets["prepositions"]):
        return f"{stem}n"
    if last in sets["strong"]:
        return stem
    following = re.match(r"\s+([^\W\d_]+)", match.after)
    noun = "" if day or following is None else following.group(1)
    if is_neuter(noun, language):
        return f"{stem}s"
    return stem if noun[:1].isupper() and is_feminine(noun, language) else f"{stem}r"


def read_ordinal(match: Match, language: LanguageWords) -> Spoken:
    """Read an ordinal, `der 3. Versuch`, or at the end of a text without an article a number."""
    last = not match.string[match.end :].strip(" )")
    before, number = match.word_before.lower(), match["number"]
    if last and before not in articles(language):
        return match.start, match.end_of("number"), year_words(language, int(number))
    return match.start, match.end - last, ordinal(match, language, int(number))


def year_words(language: LanguageWords, value: int) -> str:
    """Return the words of a year."""
    return language.year(value) if 1100 <= value < 2000 else language.cardinal(value)


def read_roman_ordinal(match: Match, language: LanguageWords) -> str | None:
    """Read an ordinal in Roman numerals: `der II. Weltkrieg`."""
    value = roman(match["numeral"])
    return ordinal(match, language, value) if value else None


def read_monarch(match: Match, language: LanguageWords) -> Spoken | None:
    """Read the numeral of a monarch in its case: `von Ludwig XIV.`, "dem Vierzehnten"."""
    name, sets = match["name"] or match["king"], language.sets
    value = roman(match["numeral"] or match["numeral_of_king"])
    last = bool(match["name"]) and match.is_last
    if value is None or name in sets["numbered_nouns"] or name in sets["titles"]:
        return None
    before = _WORDS.findall(match.before)
    role = next((word for word in reversed(before[-4:]) if word[0].islower()), before[0] if before else "").lower()
    stem = language.ordinal(value).capitalize()
    if name in sets["queens_of_germany"] or any(word.endswith(("önigin", "aiserin", "arin")) for word in before[-2:]):
        words = f"der {stem}n" if role in sets["dative"] or name.endswith("s") else f"die {stem}"
    elif role in sets["dative"]:
        words = f"dem {stem}n"
    elif role in sets["accusative"]:
        words = f"den {stem}n"
    elif role == "des" or (name.endswith("s") and not _NOMINATIVE.search(name)):
        words = f"des {stem}n"
    else:
        words = f"der {stem}"
    return match.start + len(name) + 1, match.end - last, words
