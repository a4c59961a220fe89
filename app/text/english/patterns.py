"""Kinds of token of the English normalizer: one regular expression with a named group for each kind.

The kinds are the rows of `rules.tsv` beside this module. Names in braces in their patterns stand for the parts here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

from app.text.english import tables
from app.text.pieces import COMBINING, RATE
from app.text.word_sets import expand, read_rules


def _one_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(item) for item in sorted(words, key=len, reverse=True))


_SMALL_CODES: Final = frozenset(("zł", "kr"))
# Units that a space may separate from their number. Of one letter, only those that have no other meaning.
_SPACED: Final = frozenset(unit for unit in tables.UNITS if len(unit) > 1 and unit != "in") | set("mgshLWVΩ°%‰")
_MONTHS: Final = _one_of([name.capitalize() for name in tables.MONTHS if name not in tables.MONTH_NAMES])
_DAYS: Final = _one_of([name.capitalize() for name, full in tables.DAYS.items() if name != full])
_PARTS: Final = {
    **dict(tables.ROWS["pattern"]),
    "combining": COMBINING,
    "rate": RATE,
    "code": _one_of(
        {name.upper() for name in tables.CURRENCIES if name.isalpha() and name not in _SMALL_CODES | {"rs"}}
        | _SMALL_CODES
    ),
    "unit": _one_of({unit.replace("µ", "μ") for unit in tables.UNITS} | set(tables.ATTACHED)),
    "spaced": _one_of({unit.replace("µ", "μ") for unit in _SPACED}),
    "months": _MONTHS,
    "days": _DAYS,
    "capital_months": _MONTHS.upper(),
    "capital_days": _DAYS.upper(),
    "names": _one_of([name.capitalize() for name in (*tables.MONTH_NAMES, *tables.DAYS)]),
    "states": _one_of(tables.STATES),
}
NUM: Final = _PARTS["num"]
MERIDIEM: Final = _PARTS["meridiem"]
SCALE_WORD: Final = _PARTS["scale_word"]
SIGN: Final = _PARTS["sign"]
UNIT: Final = _PARTS["unit"]
PLURAL: Final = expand("{plural}", _PARTS)
CROWD: Final = _PARTS["crowd"]
CALENDAR: Final = expand("{calendar}", _PARTS)

_RULES: Final = read_rules(Path(__file__).with_name("rules.tsv"))
KINDS: Final = tuple(name for name, _, _ in _RULES)


def _finder() -> re.Pattern[str]:
    parts = []
    for column, rules in groupby(_RULES, key=lambda rule: rule[1]):
        joined = "|".join(f"(?P<{name}>{expand(pattern, _PARTS)})" for name, _, pattern in rules)
        parts.append(rf"(?=[-+(.'\d])(?:{joined})" if column == "number" else joined)
    return re.compile("|".join(parts))


FINDER: Final = _finder()
