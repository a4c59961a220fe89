"""Agreement, conjugation, elision and contraction: what a grammar book says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from training.phrasebook import english, french, german, spanish
from training.phrasebook.forms import Form, capitalized

LANGUAGES = {"english": english, "spanish": spanish, "french": french, "german": german}
TABLE = Path(__file__).with_name("forms.tsv").read_text(encoding="utf-8")


def rows(kind: str) -> list[list[Any]]:
    """The rows of a kind in forms.tsv; the first value is the module of the language."""
    found = [line.split("\t") for line in TABLE.splitlines()[1:]]
    return [[LANGUAGES[language], *values] for first, language, *values in found if first == kind]


@pytest.mark.parametrize(("language", "name", "form", "expected"), rows("noun"))
def test_nouns(language: Any, name: str, form: str, expected: str) -> None:
    assert language.noun(name, Form.parse(form)) == expected


@pytest.mark.parametrize(("language", "noun", "form", "adjective", "expected"), rows("phrase"))
def test_noun_phrases(language: Any, noun: str, form: str, adjective: str, expected: str) -> None:
    extra = None if adjective == "-" else language.adjective(adjective)
    phrase = language.noun_phrase(language.noun(noun), Form.parse(form), extra)
    assert (french.finish(phrase) if language is french else phrase) == expected


@pytest.mark.parametrize(("language", "verb", "form", "person", "expected"), rows("verb"))
def test_verbs(language: Any, verb: str, form: str, person: str, expected: str) -> None:
    conjugate = (
        language.verb if language is english else lambda name, *rest: language.conjugate(language.verb(name), *rest)
    )
    assert conjugate(verb, Form.parse(form), person) == expected


@pytest.mark.parametrize(("language", "text", "expected"), rows("finish"))
def test_elisions_contractions_and_signs_of_questions(language: Any, text: str, expected: str) -> None:
    assert language.finish(text) == expected


def test_capitals_come_after_marks() -> None:
    assert capitalized("¿dónde está?") == "¿Dónde está?"
    assert capitalized("à bientôt.") == "À bientôt."


def test_an_unknown_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="genitive"):
        Form.parse("the.genitive")
