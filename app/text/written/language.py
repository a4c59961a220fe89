"""Words of each language for units, money, months, abbreviations and signs, from the tables beside this module.

A line of a file is the name of a table, and the columns of one row; tabs separate them. The columns of `set` are a name
and words between spaces; several rows of one name belong together. Those of `unit`, `scale` and `noun` are a symbol,
the singular, the plural and the gender; of `money` also the noun of the hundredths, and its singular and plural where
it is said alone; of `part` the number below the line of a fraction, the singular and the plural. `after` has
expressions of the place behind some words, see `_places`. All other tables have two columns, such as an abbreviation
and its words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from app.text.pieces import RATE
from app.text.word_sets import Rows, expand, read_rows
from app.text.written.numbers import Gender, Numbers

FILES: Final = {
    "de": ("shared", "german"),
    "es": ("shared", "romance", "spanish"),
    "fr-fr": ("shared", "romance", "french"),
    "it": ("shared", "romance", "italian"),
    "pt-br": ("shared", "romance", "portuguese"),
}
"""Tag of a language -> the files of its tables. A later file replaces words and patterns of an earlier one."""
_OPTIONAL: Final = ("before_number", "bible", "letter_alone", "rate")
"""Tables that some language lacks."""
_HEADLINE: Final = re.compile(r"[a-zà-ÿ]{2,6}\.")
_HEADLINE_UNITS: Final = ("km", "kg", "cm", "m²", "km²", "m2", "min")


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun that is counted: singular, plural, grammatical gender."""

    one: str
    many: str
    gender: Gender = "m"


@dataclass(frozen=True, slots=True)
class Money:
    """A currency: its noun, and the noun of its hundredths, "" if that is not said after a whole number.

    `hundredth` is that noun where less than one whole is said by it alone: fifty cents.
    """

    noun: Noun
    cents: str = ""
    hundredth: Noun | None = None


class LanguageWords:
    """Words of one language, a tag of `FILES`, and its numbers in words. Safe on any thread.

    `words` are single words by name, "" where a table has "-". `sets` are sets of words, `patterns` are parts of
    regular expressions, and `tables` are all tables of two columns. `capital_days` and `capital_months` also have the
    forms that begin with a capital letter.
    """

    def __init__(self, tag: str) -> None:
        rows = read_rows(*(Path(__file__).with_name(f"{name}.tsv") for name in FILES[tag]))
        self.tag = tag
        self.gendered = tag in ("es", "pt-br")  # numbers of two and more have a gender
        pairs = {name: {row[0]: row[1] for row in table if len(row) == 2} for name, table in rows.items()}
        self.tables: dict[str, dict[str, str]] = {**{name: {} for name in _OPTIONAL}, **pairs}
        self.words, self.patterns = (
            {name: "" if text == "-" else text for name, text in self.tables[table].items()}
            for table in ("word", "pattern")
        )
        lists: dict[str, list[str]] = defaultdict(list)
        for name, words in rows["set"]:
            lists[name] += words.split()
        self.sets = {name: frozenset(words) for name, words in lists.items()}
        self.months = lists["months"]
        self.units, self.scales, self.nouns = (_nouns(rows[name]) for name in ("unit", "scale", "noun"))
        self.money = _money(rows["money"])
        short = self.tables["abbreviation"]
        self.abbreviations = _begin_sentences(short, self.sets) if tag == "de" else _begin_titles(short)
        self.capital_days = _with_capitals(self.tables["day"])
        self.capital_months = _with_capitals(self.tables["month"])
        marks = dict.fromkeys(("nº", "n°", "n.º", "n.°"), self.words.get("number_sign", ""))
        self.before_number = _with_capitals({**self.tables["before_number"], **marks})
        parts = {int(bottom): (one, many) for bottom, one, many in rows["part"]}
        numbers = Numbers(tag, self.words["number_language"], parts)
        self.cardinal, self.ordinal, self.year = numbers.cardinal, numbers.ordinal, numbers.year
        self.digits, self.fraction, self.part = numbers.digits, numbers.fraction, numbers.part
        self._parts = {**self._alternatives(), **_places(rows["after"]), **self.patterns}

    def expand(self, pattern: str) -> str:
        """Return `pattern` with each "{name}" replaced by that part, which may have names in turn."""
        return expand(pattern, self._parts)

    def _alternatives(self) -> dict[str, str]:
        """Return expressions of any of some words."""
        symbols, stopped = self.tables["symbol"], [short[:-1] for short in self.abbreviations if short.endswith(".")]
        words = {
            **self.sets,
            "units": self.units,
            "units_with_stop": [unit for unit in self.units if re.fullmatch(r"[a-z]{2,}\.", unit)],
            "bare_units": self.units.keys() & self.sets.get("bare_units", ()),
            "money": self.money,
            "money_codes": [code for code in self.money if re.fullmatch("[A-Z]{3}", code)],
            "scales": self.scales,
            "months": self.capital_months,
            "month_names": self.months,
            "days": self.capital_days,
            "abbreviations": self.abbreviations,
            "titles": self.sets["titles"].intersection(stopped),
            "before_number": self.before_number,
            "bible": self.tables["bible"],
            "rate": self.tables["rate"],
        }
        return {
            **{name: either(forms) for name, forms in words.items()},
            "greek_letters": "".join(filter(str.isalpha, symbols)),
            "greek_signs": "".join(symbol for symbol in symbols if not symbol.isalpha()),
            "of": self.words["of"],
            "rate_name": RATE,
        }


@cache
def get_language(tag: str) -> LanguageWords:
    """Return the words of a language, a tag of `FILES`."""
    return LanguageWords(tag)


def either(keys: Iterable[str]) -> str:
    """Return an expression of any of `keys`, the longest first."""
    return "|".join(re.escape(key) for key in sorted(keys, key=lambda key: (-len(key), key)))


def _places(rows: Rows) -> dict[str, str]:
    """Return expressions of the places behind some words.

    A row has the name, templates of what stands before the place, which "|" separates, and the words, which take the
    place of "*" in each template. Each look-behind has a width of its own.
    """
    places: dict[str, list[str]] = defaultdict(list)
    for name, templates, words in rows:
        for template in templates.split("|"):
            places[name] += [f"(?<={template.replace('*', re.escape(word))})" for word in words.split()]
    return {name: "|".join(behind) for name, behind in places.items()}


def _nouns(rows: Rows) -> dict[str, Noun]:
    """Return nouns by their symbols; those that headlines write in capitals, and both characters of micro."""
    nouns = {symbol: Noun(one, many, "f" if gender == "f" else "m") for symbol, one, many, gender in rows}
    capital = {
        symbol.upper(): noun
        for symbol, noun in nouns.items()
        if _HEADLINE.fullmatch(symbol) or symbol in _HEADLINE_UNITS
    }
    greek = {symbol.replace("µ", "μ"): noun for symbol, noun in nouns.items()}
    return {**capital, **greek, **nouns}


def _money(rows: Rows) -> dict[str, Money]:
    """Return currencies by their symbols, which "/" separates. "-" stands for no noun of the hundredths."""
    currencies = {}
    for symbols, one, many, gender, *small in rows:
        cents = small[0] if small and small[0] != "-" else ""
        hundredth = Noun(small[1], small[2]) if len(small) > 1 else None
        money = Money(Noun(one, many, "f" if gender == "f" else "m"), cents, hundredth)
        # The sign of Peru ends with a slash.
        currencies.update(dict.fromkeys([symbols] if symbols.endswith("/") else symbols.split("/"), money))
    return currencies


def _with_capitals(forms: dict[str, str]) -> dict[str, str]:
    return {**forms, **{form[0].upper() + form[1:]: words for form, words in forms.items()}}


def _begin_titles(pairs: dict[str, str]) -> dict[str, str]:
    """Return abbreviations, and with a capital those of three characters on that end with a full stop.

    In a headline all their letters are capitals.
    """
    capital = {f"{short[0].upper()}{short[1:]}": words for short, words in pairs.items() if short[2:].endswith(".")}
    headline = {short.upper(): words for short, words in pairs.items() if _HEADLINE.fullmatch(short)}
    return {**headline, **capital, **pairs}


def _begin_sentences(pairs: dict[str, str], sets: dict[str, frozenset[str]]) -> dict[str, str]:
    """Return abbreviations of German, and those that begin a sentence: "Sog.".

    Those of the set `small_only` have another meaning with a capital letter.
    """
    small = [key for key in pairs if key[0].islower() and len(key) > 2 and key[1:].islower()]
    capital = {
        key[0].upper() + key[1:]: pairs[key][0].upper() + pairs[key][1:]
        for key in small
        if key not in sets["small_only"]
    }
    return {**capital, **pairs}
