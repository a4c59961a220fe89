"""Forms of the words that each language has for units, money, months, abbreviations and signs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Gender = Literal["m", "f"]
_HEADED: Final = re.compile(r"[a-zà-ÿ]{2,6}\.")


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


@dataclass(frozen=True, slots=True)
class Words:
    """Words of one language.

    `number` is the language's name in num2words. `of` links a million to what is counted, `link` a day to its month and
    year. `first` is the first day of a month. In times `hour` is said if `hour_said`, and `minutes` links hours and
    minutes. `regnal` is the last number of a monarch that is read as an ordinal. `centuries` are the words before
    or after the number of a century. `address` names signs inside addresses. `scales` are thousand, million and so
    on before the sign of a currency. `parts` names halves, thirds and so on, in the singular and plural. `dated`
    are the words before a day and month: "3/10". `numbered` are words
    before a Roman numeral that is a cardinal. `tens`: telephone numbers are read in pairs.
    """

    number: str
    comma: str
    point: str
    minus: str
    to: str
    percent: str
    of: str
    link: str
    first: str
    months: tuple[str, ...]
    hour: Noun
    hour_said: bool
    minutes: str
    money_link: str
    money: dict[str, Money]
    units: dict[str, Noun]
    per: str
    abbreviations: dict[str, str]
    signs: dict[str, str]
    centuries: str
    ordinal_centuries: bool
    regnal: int
    address: dict[str, str]
    scales: dict[str, Noun]
    parts: dict[int, tuple[str, str]]
    numbered: str
    dated: str = ""
    tens: bool = False


def read_tables(language: str) -> dict[str, str]:
    """Return the tables of a language by name: the sections of its file."""
    sections = Path(__file__).with_name(f"{language}.txt").read_text(encoding="utf-8").split("\n[")
    return dict(section.lstrip("[").split("]\n", 1) for section in sections)


def parse_nouns(table: str) -> dict[str, Noun]:
    """Parse lines `symbol one many gender`; underscores stand for spaces."""
    found = {}
    for line in table.strip().splitlines():
        symbol, one, many, gender = line.split()
        found[symbol.replace("_", " ")] = Noun(
            one.replace("_", " "), many.replace("_", " "), "f" if gender == "f" else "m"
        )
    headed = {symbol.upper(): noun for symbol, noun in found.items() if _HEADED.fullmatch(symbol)}
    headed |= {
        symbol.upper(): found[symbol] for symbol in ("km", "kg", "cm", "m²", "km²", "m2", "min") if symbol in found
    }
    greek = {symbol.replace("µ", "μ"): noun for symbol, noun in found.items()}
    return {**headed, **greek, **found}


def parse_money(table: str) -> dict[str, Money]:
    """Parse lines `symbols one many gender [cents hundredth hundredths]`; "/" stands between symbols, "-" for none."""
    found = {}
    for line in table.strip().splitlines():
        symbols, one, many, gender, *small = (field.replace("_", " ") for field in line.split())
        noun = Noun(one, many, "f" if gender == "f" else "m")
        cents = small[0] if small and small[0] != "-" else ""
        money = Money(noun, cents, Noun(small[1], small[2]) if small else None)
        # The sign of Peru ends with a slash.
        found.update(dict.fromkeys([symbols] if symbols.endswith("/") else symbols.split("/"), money))
    return found


def parse_names(table: str) -> tuple[str, ...]:
    """Parse names between spaces."""
    return tuple(table.split())


def parse_pairs(table: str) -> dict[str, str]:
    """Parse `short=long` pairs, separated by semicolons."""
    pairs = (item.rsplit("=", 1) for item in table.replace("\n", " ").split(";") if item.strip())
    return {short.strip(): long.strip() for short, long in pairs}


def parse_abbreviations(table: str) -> dict[str, str]:
    """Parse `short=long` pairs. Those of three characters on that end with a full stop may begin with a capital.

    In a headline all their letters are capitals.
    """
    pairs = parse_pairs(table)
    capital = {f"{short[0].upper()}{short[1:]}": said for short, said in pairs.items() if short[2:].endswith(".")}
    return {**{short.upper(): said for short, said in pairs.items() if _HEADED.fullmatch(short)}, **capital, **pairs}
