"""Written forms of each language."""

from __future__ import annotations

from functools import cache

from app.text.written import german, romance
from app.text.written.language import FILES, get_language
from app.text.written.rules import WrittenForms


@cache
def get_forms(tag: str) -> WrittenForms | None:
    """Return the written forms of a language, or None if it has none here."""
    if tag not in FILES:
        return None
    language = get_language(tag)
    if tag == "de":
        return WrittenForms(language, german.RULES, german.parts(language))
    return WrittenForms(language, romance.RULES, romance.parts(language), romance.START)
