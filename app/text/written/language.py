"""Words of each language for units, money, months, abbreviations and signs, from the tables beside this module.

A line of a table's file is the name of the table, a tab, and the columns of one row. Longer rows of `set`, which holds
words between spaces, are written as several lines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from app.text.written.numbers import Gender, Numbers

Rows = list[list[str]]

FILES: Final = {
    "de": ("shared", "german"),
    "es": ("shared", "romance", "spanish"),
    "fr-fr": ("shared", "romance", "french"),
    "it": ("shared", "romance", "italian"),
    "pt-br": ("shared", "romance", "portuguese"),
}
"""Language tag -> the files of its tables. A later file replaces words and patterns of an earlier one."""
_HEADLINE: Final = re.compile(r"[a-zà-ÿ]{2,6}\.")
_HEADLINE_UNITS: Final = ("km", "kg", "cm", "m²", "km²", "m2", "min")
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")


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


class Language:
    """Words of one language, a tag of `FILES`, and its numbers in words. Safe on any thread.

    `words` are single words by name, "" where a table has "-". `sets` are sets of words, `patterns` are parts of
    regular expressions, and `tables` are all tables of two columns. `capital_days` and `capital_months` also have the
    forms that begin with a capital letter.
    """

    def __init__(self, tag: str) -> None:
        rows = _read_rows(FILES[tag])
        self.tag = tag
        self.gendered = tag in ("es", "pt-br")  # numbers of two and more have a gender
        self.tables: dict[str, dict[str, str]] = defaultdict(dict)
        self.tables |= {name: {row[0]: row[1] for row in table if len(row) == 2} for name, table in rows.items()}
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

    def expand(self, pattern: str, parts: dict[str, str]) -> str:
        """Return `pattern` with each "{name}" replaced by that part, which may have names in turn."""
        named = {**self.patterns, **parts}
        return _PLACEHOLDER.sub(lambda match: self.expand(named[match[1]], parts), pattern)


@cache
def get_language(tag: str) -> Language:
    """Return the words of a language, a tag of `FILES`."""
    return Language(tag)


def either(keys: Iterable[str]) -> str:
    """Return an expression of any of `keys`, the longest first."""
    return "|".join(re.escape(key) for key in sorted(keys, key=lambda key: (-len(key), key)))


def after(words: Iterable[str], gap: str = r"\s", *, any_case: bool = False) -> str:
    """Return an expression of the place behind any of `words` and `gap`. Each look-behind has a width of its own."""
    return "|".join(
        rf"(?<=\b(?i:{re.escape(word)}){gap})" if any_case else rf"(?<=\b{re.escape(word)}{gap})"
        for word in sorted(words)
    )


def _read_rows(files: Iterable[str]) -> dict[str, Rows]:
    rows: dict[str, Rows] = defaultdict(list)
    for name in files:
        for line in Path(__file__).with_name(f"{name}.tsv").read_text(encoding="utf-8").splitlines():
            if not line.startswith("# "):
                table, *row = line.split("\t")
                rows[table].append(row)
    return rows


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
