"""Readers of numbers, amounts, ranges and addresses that all five languages share, and the words of a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from app.text.written.abbreviations import LAST_TOO, pattern
from app.text.written.german_ordinals import year_words
from app.text.written.language import LanguageWords, Money, Noun
from app.text.written.numbers import Gender, roman
from app.text.written.rules import Match, Spoken

MAX_DIGITS: Final = 15
"""Digits that are read as one number."""
_MAX_ADDRESS_DIGITS: Final = 4
FRACTIONS: Final = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅛": (1, 8)}
"""Signs of fractions: numbers above and below the line."""
_SEPARATORS: Final = str.maketrans("", "", " .\u00a0\u202f")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[ .\u00a0\u202f]\d{3})+")
_PROTOCOL: Final = re.compile(r"https?://")
_ADDRESS_PARTS: Final = re.compile(r"\d+|[^\W\d_]+|[^\w\s]|_")


def join(*parts: str | None) -> str:
    """Return the parts that are not empty, with spaces between."""
    return " ".join(filter(None, parts))


# Numbers


def number_words(language: LanguageWords, number: str, noun: Noun | None = None) -> str:
    """Return the words of a number, and of the noun that it counts."""
    words = language.words
    if language.tag == "de" and noun is None and len(number) == 4 and number.isdecimal() and number[0] != "0":
        return year_words(language, int(number))
    number = number.replace("'", ",")
    plain, comma, fraction = number.partition(",")
    if not comma and not _GROUPED.fullmatch(number):
        plain, comma, fraction = number.partition(".")
    whole = plain.translate(_SEPARATORS)
    if len(whole) > MAX_DIGITS:
        return language.digits(whole)
    value = int(whole)
    if fraction:
        text = f"{language.cardinal(value)} {words['comma' if comma == ',' else 'point']} {language.fraction(fraction)}"
    elif whole[0] == "0" and len(whole) > 1:
        text = language.digits(whole)
    else:
        text = language.cardinal(value, noun.gender if noun else None)
    if noun is not None:
        few = value < 2 if language.tag in ("fr-fr", "pt-br") else value == 1 and not fraction
        counted = noun.one if few else noun.many
        if not words["of"] or not value or value % 1_000_000 or fraction:
            text = f"{text} {counted}"
        elif language.tag == "fr-fr" and counted[0] in "aeiouéhy":
            text = f"{text} d'{counted}"
        else:
            text = f"{text} {words['of']} {counted}"
    return re.sub(r"(cent|vingt)s (?=mille\b)", r"\1 ", text) if language.tag == "fr-fr" else text


def count(language: LanguageWords, number: str, gender: Gender | None) -> str:
    """Return the words of a number before a noun that is not said, such as the first one of a range."""
    return language.cardinal(int(number), gender) if number.isdecimal() else number_words(language, number)


def counted(language: LanguageWords, value: int, unit: str) -> str:
    """Return the words of a whole number of units."""
    noun = language.units[unit]
    one = value == 1 or (value == 0 and language.tag == "pt-br")
    return f"{language.cardinal(value, noun.gender)} {noun.one if one else noun.many}"


def sum_words(language: LanguageWords, number: str, money: Money) -> str:
    """Return the words of an amount of money, with its hundredths."""
    cents = re.search(r"[.,](\d\d)$", number)
    if cents is None:
        return number_words(language, number, money.noun)
    whole = number_words(language, number[: cents.start()], money.noun)
    if not int(cents[1]):
        return whole
    small = money.hundredth.one if money.hundredth and cents[1] == "01" else money.cents
    return join(whole, language.words["money_link"], language.cardinal(int(cents[1])), money.cents and small)


def signed(match: Match, language: LanguageWords, words: str) -> str:
    """Return `words` with "minus" before them if the form has a minus sign."""
    return f"{language.words['minus']} {words}" if match["minus"] else words


def full_year(year: str) -> int:
    """Return a year of four digits or two."""
    return int(year) + (0 if len(year) > 2 else 2000 if int(year) < 50 else 1900)


def read_number(match: Match, language: LanguageWords) -> str:
    """Read a number by itself: `1.250`."""
    return number_words(language, match["number"])


def read_negative(match: Match, language: LanguageWords) -> str:
    """Read a number with a minus sign: `-5`."""
    return f"{language.words['minus']} {number_words(language, match['number'])}"


def range_words(match: Match, language: LanguageWords, score: str = "") -> str | None:
    """Return the words of a range, `3-5 km`, or of the score of a game, `3-2`, with the word `score` in its middle."""
    first, last, unit, words = match["first"], match["last"], match["unit"], language.words
    if max(len(first), len(last)) > MAX_DIGITS:
        return None
    if _value(first) >= _value(last):
        is_score = unit is None and max(len(first), len(last)) < 3 and " " not in match.text.rstrip()
        between = f" {score or words['to']} "
        return f"{number_words(language, first)}{between}{number_words(language, last)}" if is_score else None
    noun = language.money[unit].noun if unit in language.money else language.units.get(unit or "")
    start = count(language, first, noun.gender if noun else None)
    percent = words["percent"] if unit == "%" else ""
    return join(start, words["to"], number_words(language, last, noun), percent)


def _value(number: str) -> float:
    return float(re.sub(r"[ .\u00a0\u202f](?=\d{3}(?:\D|$))", "", number).replace(",", "."))


def unit_words(match: Match, language: LanguageWords) -> str:
    """Return the words of an amount of a unit, and of what it is per: `80 km/h`."""
    words = signed(match, language, number_words(language, match["amount"], language.units[match["unit"]]))
    return words + rate_words(match["per"], language)


def rate_words(unit: str | None, language: LanguageWords) -> str:
    """Return the words of what a unit is per, "" if that is none."""
    rate = language.units.get(unit or "")
    if language.tag == "fr-fr" and unit == "h":
        return " à l'heure"
    return "" if rate is None else f" {language.words['per']} {rate.one}"


def read_rate_name(match: Match, language: LanguageWords) -> str | None:
    """Read a unit per another one without a number: `km/h`."""
    top, bottom = map(language.units.get, match.text.split("/"))
    return f"{top.many} {language.words['per']} {bottom.one}" if top and bottom else None


def read_sign(match: Match, language: LanguageWords) -> str:
    """Read a sign between numbers: `2 + 2 = 4`."""
    sign = match["sign"] or match["sign_before"]
    return language.tables["sign"]["×" if sign == "x" else sign]


def read_cardinal(match: Match, language: LanguageWords) -> str:
    """Read a whole number, without what separates its thousands: `2` before a Greek letter, `12'000`."""
    return language.cardinal(int(re.sub(r"\D", "", match.text)))


# Addresses


def address_words(language: LanguageWords, text: str, signs: Mapping[str, str] | None = None) -> str:
    """Return the words of an address without its protocol. `signs` names signs; others are not read."""
    signs = language.tables["address"] if signs is None else signs
    words = []
    for part in _ADDRESS_PARTS.findall(_PROTOCOL.sub("", text)):
        if part.isdecimal():
            plain = len(part) <= _MAX_ADDRESS_DIGITS and (part[0] != "0" or len(part) == 1)
            words.append(language.cardinal(int(part)) if plain else language.digits(part))
        else:
            words.append(signs[part] if part in signs else "".join(filter(str.isalpha, part)))
    return join(*words)


def read_address(match: Match, language: LanguageWords) -> Spoken:
    """Read an address of the web or of mail, or the name of a file: `www.example.org`."""
    text = match.text.rstrip(".,;:!?)]")
    return match.start, match.start + len(text), address_words(language, text)


def read_version(match: Match, language: LanguageWords) -> str:
    """Read the number of a version: `3.11.2`."""
    return address_words(language, match.text)


# Abbreviations and Roman numerals


def abbreviation_words(match: Match, language: LanguageWords) -> Spoken:
    """Return the words of an abbreviation, `etc.`, without the full stop that ends the sentence, too."""
    short, rest = match.text, match.string[match.end :].strip()
    ends = not rest
    if short in LAST_TOO and rest[:1].isupper():
        ends = not re.match(r"[A-ZÀ-Ý]+(?:\s|$)", rest) and pattern(language.tag).match(rest) is None  # no headline
    last = short.endswith(".") and ends
    return match.start, match.end - last, language.abbreviations[match.text]


def read_numeral(match: Match, language: LanguageWords) -> str | None:
    """Read a Roman numeral as a number: `capítulo IV`."""
    value = roman(match["numeral"])
    return None if value is None else language.cardinal(value)


def read_named_numeral(match: Match, language: LanguageWords) -> Spoken | None:
    """Read the Roman numeral after a name: `Luis XIV`. A letter alone is a numeral only after the name of a monarch."""
    name, value, sets = match["name"], roman(match["numeral"]), language.sets
    if name.isupper() and len(name) > 3 and not (language.tag == "it" and match["numeral"] == "I"):
        name = name.capitalize()  # in a headline
    if name.lower() in sets["centuries"]:
        words = century(language, match["numeral"])
        return None if words is None else (match.start_of("numeral"), match.end, words)
    monarch = name in sets["kings"] or name in sets["queens"]
    if value is None or not name[0].isupper() or (len(match["numeral"]) == 1 and not monarch):
        return None
    words = language.cardinal(value)
    if monarch and value <= int(language.words["last_ordinal_of_monarchs"]):
        words = language.ordinal(value, "f" if name in sets["queens"] else "m")
    return match.start_of("numeral"), match.end, words


def century(language: LanguageWords, numeral: str) -> str | None:
    """Return the words of a century: an ordinal in French and Italian."""
    value = roman(numeral)
    if value is None:
        return None
    return language.ordinal(value) if language.tag in ("fr-fr", "it") else language.cardinal(value)
