"""Ordinals, and Roman numerals of monarchs, centuries, events and parts of books, of the Romance languages."""

from __future__ import annotations

import re
from typing import Final

from app.text.written.language import LanguageWords
from app.text.written.numbers import roman
from app.text.written.quantities import century, number_words, read_named_numeral, read_numeral
from app.text.written.romance_letters import in_capitals, is_feminine
from app.text.written.rules import Match, Reading, Spoken

_CENTURIES: Final = re.compile(r"(?:secol[oi]|[Ss]ecc?\.)\s(?:[IVX]+(?:\s?[-–,]\s?|\s(?:e|o|ed|al)\s))?$")
_CENTURY_AFTER: Final = re.compile(r"\ssec(?:\.|olo|oli)")
_OF_CENTURIES: Final = re.compile(r"\b(?:siglos?|ss?\.|s[ée]cs?\.|séculos?|secol[oi]|secc?\.)\s$", re.IGNORECASE)
_REIGN: Final = re.compile(r"[A-ZÀ-Ý][a-zà-ÿ]+\s[IVX]+(?:er)?\s(?:d['’]|d[eiao]\s)")
_NEXT_WORD: Final = re.compile(r"\s([^\W\d_]+)")
_MAX_ORDINAL: Final = 20  # the last ordinal that is said for a Roman numeral before a noun
_MIN_ANGLE: Final = 30


def _next_noun_gender(match: Match, language: LanguageWords) -> bool:
    """Return whether the word after the form is a feminine noun."""
    following = _NEXT_WORD.match(match.string[match.end : match.end + 32])
    return is_feminine(language, following[1] if following else "")


# Ordinals in digits


def read_ordinal(match: Match, language: LanguageWords) -> str | None:
    """Read an ordinal. "of 60º", that no noun follows, is an angle in Spanish and Portuguese."""
    ending, value = match["ending"], int(match["number"])
    alone = ending == "º" and "." not in match.text and not re.match(r"\s?[^\W\d]", match.string[match.end :])
    alone = alone and match.word_before.lower() in ("", "de", "a", "en", "em", "hasta", "até", "por")
    if language.gendered and alone and value >= _MIN_ANGLE:
        return number_words(language, match["number"], language.units["º"])
    if not value or (ending == "er" and value > 1 and language.tag != "es") or (ending in ("o", "a") and value >= 100):
        return None
    feminine = ending in ("ª", "re", "ère", "nde") or ending.endswith("a")
    if ending in ("nd", "nde"):
        return "seconde" if feminine else "second"
    plural = "s" if ending in ("ers", "es", "èmes") else ""
    return language.ordinal(value, "f" if feminine else "m", short=ending == "er") + plural


def read_italian_ordinal(match: Match, language: LanguageWords) -> str:
    """Read an ordinal with its letters: `5-esimo`, `n^`."""
    ending = match["ending"] or ("a" if _next_noun_gender(match, language) else "o")
    return language.ordinal(int(match["number"]))[:-1] + ending


def read_ordinal_after_article(match: Match, language: LanguageWords) -> str:
    """Read an Italian ordinal with the sign of degrees after an article: `al 3° posto`."""
    return language.ordinal(int(match["number"]), "f" if _next_noun_gender(match, language) else "m")


def read_floor(match: Match, language: LanguageWords) -> Spoken:
    """Read a floor of a house: `3° p.`."""
    return match.but_last_stop(f"{language.ordinal(int(match['number']))} piano")


# Roman numerals


def read_french_ordinal(match: Match, language: LanguageWords) -> Reading:
    """Read a French ordinal in Roman numerals: `XXe`, `XIXe s.`."""
    value = roman(match["numeral"])
    if value is None:
        return None
    words = language.ordinal(value, "f" if re.search(r"(?:re|ère)$", match.text) else "m")
    return match.but_last_stop(f"{words} siècle") if match["century"] else words


def read_ordinal_range(match: Match, language: LanguageWords) -> str | None:
    """Read the first of two French ordinals: `XVIIe-XVIIIe`."""
    value = roman(match["numeral"])
    return None if value is None else f"{language.ordinal(value)} {language.words['to']}"


def read_roman_range(match: Match, language: LanguageWords) -> Reading:
    """Read a range of Roman numerals: `IV-VI`. It falls only among centuries, which may be before Christ."""
    first, last = roman(match["first"]), roman(match["last"])
    following = _CENTURY_AFTER.match(match.string, match.end)
    falling = following is not None or _OF_CENTURIES.search(match.before) is not None
    if first is None or last is None or first == last or (first > last and not falling):
        return None
    ordinal = language.tag == "it" and (following is not None or _CENTURIES.search(match.before) is not None)
    number = language.ordinal if ordinal else language.cardinal
    words = f"{number(first)} {language.words['to']} {number(last)}"
    if ordinal and following is not None and following.group().endswith("."):
        return match.start, following.end() - (not match.string[following.end() :].strip()), f"{words} secolo"
    return words


def read_centuries(match: Match, language: LanguageWords) -> str | None:
    """Read the first of two Italian centuries, or the number before the word: `XIX e XX secolo`."""
    return century(language, match["numeral"])


def read_century_after(match: Match, language: LanguageWords) -> Spoken | None:
    """Read an Italian century with its abbreviation: `XX sec.`."""
    words = century(language, match["numeral"])
    return None if words is None else match.but_last_stop(f"{words} secolo")


def read_second_reign(match: Match, language: LanguageWords) -> str | None:
    """Read the second numeral of "Charles I of Spain and V of Germany"."""
    value = roman(match["numeral"])
    if value is None or not _REIGN.search(match.string, 0, match.start):
        return None
    ordinal = value <= int(language.words["last_ordinal_of_monarchs"])
    return language.ordinal(value) if ordinal else language.cardinal(value)


def read_numeral_before_noun(match: Match, language: LanguageWords) -> Spoken | None:
    """Read a numeral before what it counts, by the gender of the noun: `XX Congreso`, `IV edición`."""
    return _ordinal_before(match, language, match["noun"] or match["after_sign"])


def read_numeral_after_article(match: Match, language: LanguageWords) -> Spoken | None:
    """Read a numeral between an article and what it counts: `la III edición`."""
    return None if match["noun"] in language.sets["no_nouns"] else _ordinal_before(match, language, match["noun"])


def _ordinal_before(match: Match, language: LanguageWords, noun: str) -> Spoken | None:
    value = roman(match["numeral"])
    if value is None:
        return None
    if value > _MAX_ORDINAL and language.tag == "es":
        return match.start, match.end - 1, language.cardinal(value)
    article = match.word_before.lower() in language.sets["feminine_articles"]
    feminine = article or (language.tag != "fr-fr" and is_feminine(language, noun.lower()))
    return match.start, match.end - 1, language.ordinal(value, "f" if feminine else "m", short=not feminine)


def read_numeral_alone(match: Match, language: LanguageWords) -> str | None:
    """Read a Roman numeral by itself: `XIV`."""
    value = roman(match["numeral"])
    # "VI" is a word of Italian.
    if value is None or (match["numeral"] == "VI" and language.tag == "it" and in_capitals(match)):
        return None
    ordinal = language.tag == "it" and _CENTURIES.search(match.before) is not None
    return language.ordinal(value) if ordinal else language.cardinal(value)


def read_part_of_book(match: Match, language: LanguageWords) -> str | None:
    """Read the numeral after a part of a book or play: `capítulo IV`, `atto II`."""
    return _of_play(match["numeral"], match.word_before, language) or read_numeral(match, language)


def read_numeral_after_name(match: Match, language: LanguageWords) -> Spoken | None:
    """Read the numeral after a name, or after a part of a book with a capital: `Luis XIV`, `Capítulo IV`."""
    words = _of_play(match["numeral"], match["name"], language)
    if words is None and match["name"].lower() in language.sets["numbered_nouns"]:
        words = read_numeral(match, language)
    return (match.start_of("numeral"), match.end, words) if words else read_named_numeral(match, language)


def _of_play(numeral: str, noun: str, language: LanguageWords) -> str | None:
    """Return the ordinal of an act or a scene in Italian; None: the numeral is read in another way."""
    value = roman(numeral)
    if value is None or language.tag != "it" or noun.lower() not in ("atto", "scena"):
        return None
    return language.ordinal(value, "f" if noun.endswith("a") else "m")
