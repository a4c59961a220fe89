"""Written forms of each language."""

from __future__ import annotations

from functools import cache
from typing import Final

from app.text.written import (
    german_ordinals,
    german_quantities,
    german_times,
    quantities,
    romance_letters,
    romance_numerals,
    romance_quantities,
    romance_times,
)
from app.text.written.language import FILES, get_language
from app.text.written.rules import Read, WrittenForms, load_rules

_GERMAN: Final = (quantities, german_ordinals, german_quantities, german_times)
_ROMANCE: Final = (quantities, romance_letters, romance_numerals, romance_quantities, romance_times)
"""Modules whose functions named `read_...` read forms: the tables of rules name them."""
_NOT_INSIDE_WORD: Final = r"(?!(?<=[^\W\d_])[^\W\d_])"


@cache
def get_forms(tag: str) -> WrittenForms | None:
    """Return the written forms of a language, or None if it has none here."""
    if tag not in FILES:
        return None
    language, modules = get_language(tag), _GERMAN if tag == "de" else _ROMANCE
    readers: dict[str, Read] = {
        name: value for module in modules for name, value in vars(module).items() if name.startswith("read_")
    }
    return WrittenForms(language, load_rules(language, readers), "" if tag == "de" else _NOT_INSIDE_WORD)
