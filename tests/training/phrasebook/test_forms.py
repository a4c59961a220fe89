"""Agreement, conjugation, elision and contraction: what a grammar book says of them."""

from __future__ import annotations

import pytest

from training.phrasebook import english, french, german, spanish
from training.phrasebook.forms import Form, capitalized


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("apple", "a", "an apple"),
        ("university", "a", "a university"),
        ("mouse/mice", "pl", "mice"),
        ("knife", "pl", "knives"),
        ("battery", "pl", "batteries"),
        ("toy", "pl", "toys"),
        ("watch", "this.pl", "these watches"),
    ],
)
def test_english_nouns(name: str, form: str, expected: str) -> None:
    assert english.noun(name, Form.parse(form)) == expected


@pytest.mark.parametrize(
    ("name", "form", "person", "expected"),
    [
        ("copy/copied", "pres", "3s", "copies"),
        ("copy/copied", "past", "1s", "copied"),
        ("turn on", "past", "3p", "turned on"),
        ("turn on", "pres", "3s", "turns on"),
        ("wash", "pres", "3s", "washes"),
        ("buy/bought", "past", "3s", "bought"),
        ("buy/bought", "base", "3s", "buy"),
        ("am|is|are", "pres", "2", "are"),
        ("am|is|are", "pres", "1s", "am"),
    ],
)
def test_english_verbs(name: str, form: str, person: str, expected: str) -> None:
    assert english.verb(name, Form.parse(form), person) == expected


@pytest.mark.parametrize(
    ("noun", "form", "adjective", "expected"),
    [
        ("casa f", "a", "rojo", "una casa roja"),
        ("lápiz m", "the.pl", "azul", "los lápices azules"),
        ("agua f el", "the", "frío", "el agua fría"),
        ("agua f el", "the.pl", None, "las aguas"),
        ("jersey m pl=jerséis", "my.pl", "gris", "mis jerséis grises"),
        ("hotel m", "no", None, "ningún hotel"),
    ],
)
def test_spanish_noun_phrases(noun: str, form: str, adjective: str | None, expected: str) -> None:
    extra = None if adjective is None else spanish.adjective(adjective)
    assert spanish.noun_phrase(spanish.noun(noun), Form.parse(form), extra) == expected


@pytest.mark.parametrize(
    ("verb", "form", "person", "expected"),
    [
        ("buscar", "past", "1s", "busqué"),
        ("apagar", "imp", "", "apague"),
        ("comer", "past", "3p", "comieron"),
        ("abrir", "pres", "1p", "abrimos"),
        ("abrir", "imp", "", "abra"),
        ("comprar", "pres", "2", "compra"),
        ("cerrar cierro cierra cerramos cierran cerré cerró cerramos cerraron", "imp", "", "cierre"),
    ],
)
def test_spanish_verbs(verb: str, form: str, person: str, expected: str) -> None:
    assert spanish.conjugate(spanish.verb(verb), Form.parse(form), person) == expected


def test_spanish_contracts_and_opens_questions() -> None:
    assert spanish.finish("cerca de el banco a el lado") == "cerca del banco al lado"
    assert spanish.finish("hola, ¿dónde está?") == "hola, ¿dónde está?"
    assert spanish.finish("dónde está?") == "¿dónde está?"
    assert spanish.finish("francés y italiano") == "francés e italiano"


@pytest.mark.parametrize(
    ("noun", "form", "adjective", "expected"),
    [
        ("hôtel m", "the", "vieux vieille pre vowel=vieil", "le vieil hôtel"),
        ("hôtel m", "the", None, "l'hôtel"),
        ("écharpe f", "my", "bleu", "mon écharpe bleue"),
        ("écharpe f", "my", "petit pre", "ma petite écharpe"),
        ("hôtel m", "this", None, "cet hôtel"),
        ("yaourt m asp", "the", None, "le yaourt"),
        ("hamburger m asp", "this", None, "ce hamburger"),
        ("gâteau m", "the.pl", "blanc blanche", "les gâteaux blancs"),
        ("cheval m pl=chevaux", "a.pl", None, "des chevaux"),
        ("clé f", "which.pl", None, "quelles clés"),
    ],
)
def test_french_noun_phrases(noun: str, form: str, adjective: str | None, expected: str) -> None:
    extra = None if adjective is None else french.adjective(adjective)
    assert french.finish(french.noun_phrase(french.noun(noun), Form.parse(form), extra)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("à le musée", "au musée"),
        ("à le hôtel", "à l'hôtel"),
        ("de le yaourt?", "du yaourt ?"),
        ("j'ai besoin de un vélo", "j'ai besoin d'un vélo"),
        ("est-ce que il a le temps?", "est-ce qu'il a le temps ?"),
        ("je ne ai pas de eau", "je n'ai pas d'eau"),
        ("à ʰonze heures de le ʰhuit mai", "à onze heures du huit mai"),
        ("où puis-je aller", "où puis-je aller"),
    ],
)
def test_french_elides_and_contracts(text: str, expected: str) -> None:
    assert french.finish(text) == expected


def test_french_verbs() -> None:
    eat = french.verb("manger")
    assert [french.conjugate(eat, Form(), person) for person in ("1s", "1p", "2", "3p")] == [
        "mange",
        "mangeons",
        "mangez",
        "mangent",
    ]
    assert french.conjugate(eat, Form.parse("part"), "") == "mangé"


@pytest.mark.parametrize(
    ("noun", "form", "adjective", "expected"),
    [
        ("Mantel m Mäntel", "a.acc", "rot", "einen roten Mantel"),
        ("Mantel m Mäntel", "a", "rot", "ein roter Mantel"),
        ("Mantel m Mäntel", "the", "rot", "der rote Mantel"),
        ("Haus n Häuser", "no.dat", "groß", "keinem großen Haus"),
        ("Haus n Häuser", "this.acc", "teuer teur", "dieses teure Haus"),
        ("Haus n Häuser", "pl.dat", "alt", "alten Häusern"),
        ("Tür f -en", "my.dat", "neu", "meiner neuen Tür"),
        ("Tür f -en", "the.pl", "neu", "die neuen Türen"),
        ("Nachbar m -n weak=Nachbarn", "your.acc", None, "Ihren Nachbarn"),
        ("Glas Wasser n Gläser Wasser", "pl", None, "Gläser Wasser"),
    ],
)
def test_german_noun_phrases(noun: str, form: str, adjective: str | None, expected: str) -> None:
    extra = None if adjective is None else german.adjective(adjective)
    assert german.noun_phrase(german.noun(noun), Form.parse(form), extra) == expected


@pytest.mark.parametrize(
    ("verb", "form", "person", "expected"),
    [
        ("kaufen", "part", "", "gekauft"),
        ("besuchen", "part", "", "besucht"),
        ("reparieren", "part", "", "repariert"),
        ("öffnen", "pres", "3s", "öffnet"),
        ("ein·schalten schalte schaltet eingeschaltet", "inf", "", "einschalten"),
        ("ein·schalten schalte schaltet eingeschaltet", "pres", "1p", "schalten"),
        ("ein·schalten schalte schaltet eingeschaltet", "end", "", "ein"),
        ("sein bin ist sind gewesen", "pres", "2", "sind"),
    ],
)
def test_german_verbs(verb: str, form: str, person: str, expected: str) -> None:
    assert german.conjugate(german.verb(verb), Form.parse(form), person) == expected


def test_german_contracts() -> None:
    assert german.finish("in dem Park zu der Bank von dem Arzt") == "im Park zur Bank vom Arzt"


def test_capitals_come_after_marks() -> None:
    assert capitalized("¿dónde está?") == "¿Dónde está?"
    assert capitalized("à bientôt.") == "À bientôt."


def test_an_unknown_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="genitive"):
        Form.parse("the.genitive")
