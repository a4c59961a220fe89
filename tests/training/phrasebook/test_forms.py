"""Agreement, conjugation, elision and contraction: what a grammar book says of them."""

from __future__ import annotations

from typing import Any

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
    ("language", "noun", "form", "adjective", "expected"),
    [
        (spanish, "casa f", "a", "rojo", "una casa roja"),
        (spanish, "lápiz m", "the.pl", "azul", "los lápices azules"),
        (spanish, "agua f el", "the", "frío", "el agua fría"),
        (spanish, "agua f el", "the.pl", None, "las aguas"),
        (spanish, "jersey m pl=jerséis", "my.pl", "gris", "mis jerséis grises"),
        (spanish, "hotel m", "no", None, "ningún hotel"),
        (french, "hôtel m", "the", "vieux vieille pre vowel=vieil", "le vieil hôtel"),
        (french, "hôtel m", "the", None, "l'hôtel"),
        (french, "écharpe f", "my", "bleu", "mon écharpe bleue"),
        (french, "écharpe f", "my", "petit pre", "ma petite écharpe"),
        (french, "hôtel m", "this", None, "cet hôtel"),
        (french, "yaourt m asp", "the", None, "le yaourt"),
        (french, "hamburger m asp", "this", None, "ce hamburger"),
        (french, "gâteau m", "the.pl", "blanc blanche", "les gâteaux blancs"),
        (french, "cheval m pl=chevaux", "a.pl", None, "des chevaux"),
        (french, "clé f", "which.pl", None, "quelles clés"),
        (german, "Mantel m Mäntel", "a.acc", "rot", "einen roten Mantel"),
        (german, "Mantel m Mäntel", "a", "rot", "ein roter Mantel"),
        (german, "Mantel m Mäntel", "the", "rot", "der rote Mantel"),
        (german, "Haus n Häuser", "no.dat", "groß", "keinem großen Haus"),
        (german, "Haus n Häuser", "this.acc", "teuer teur", "dieses teure Haus"),
        (german, "Haus n Häuser", "pl.dat", "alt", "alten Häusern"),
        (german, "Tür f -en", "my.dat", "neu", "meiner neuen Tür"),
        (german, "Tür f -en", "the.pl", "neu", "die neuen Türen"),
        (german, "Nachbar m -n weak=Nachbarn", "your.acc", None, "Ihren Nachbarn"),
        (german, "Glas Wasser n Gläser Wasser", "pl", None, "Gläser Wasser"),
    ],
)
def test_noun_phrases(language: Any, noun: str, form: str, adjective: str | None, expected: str) -> None:
    extra = None if adjective is None else language.adjective(adjective)
    phrase = language.noun_phrase(language.noun(noun), Form.parse(form), extra)
    assert (french.finish(phrase) if language is french else phrase) == expected


@pytest.mark.parametrize(
    ("language", "verb", "form", "person", "expected"),
    [
        (english, "copy/copied", "pres", "3s", "copies"),
        (english, "copy/copied", "past", "1s", "copied"),
        (english, "turn on", "past", "3p", "turned on"),
        (english, "turn on", "pres", "3s", "turns on"),
        (english, "wash", "pres", "3s", "washes"),
        (english, "buy/bought", "past", "3s", "bought"),
        (english, "buy/bought", "base", "3s", "buy"),
        (english, "am|is|are", "pres", "2", "are"),
        (english, "am|is|are", "pres", "1s", "am"),
        (spanish, "buscar", "past", "1s", "busqué"),
        (spanish, "apagar", "imp", "", "apague"),
        (spanish, "comer", "past", "3p", "comieron"),
        (spanish, "abrir", "pres", "1p", "abrimos"),
        (spanish, "abrir", "imp", "", "abra"),
        (spanish, "comprar", "pres", "2", "compra"),
        (spanish, "cerrar cierro cierra cerramos cierran cerré cerró cerramos cerraron", "imp", "", "cierre"),
        (german, "kaufen", "part", "", "gekauft"),
        (german, "besuchen", "part", "", "besucht"),
        (german, "reparieren", "part", "", "repariert"),
        (german, "öffnen", "pres", "3s", "öffnet"),
        (german, "ein·schalten schalte schaltet eingeschaltet", "inf", "", "einschalten"),
        (german, "ein·schalten schalte schaltet eingeschaltet", "pres", "1p", "schalten"),
        (german, "ein·schalten schalte schaltet eingeschaltet", "end", "", "ein"),
        (german, "sein bin ist sind gewesen", "pres", "2", "sind"),
        (french, "manger", "pres", "1s", "mange"),
        (french, "manger", "pres", "1p", "mangeons"),
        (french, "manger", "pres", "2", "mangez"),
        (french, "manger", "pres", "3p", "mangent"),
        (french, "manger", "part", "", "mangé"),
    ],
)
def test_verbs(language: Any, verb: str, form: str, person: str, expected: str) -> None:
    conjugate = (
        language.verb if language is english else lambda name, *rest: language.conjugate(language.verb(name), *rest)
    )
    assert conjugate(verb, Form.parse(form), person) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (french, "à le musée", "au musée"),
        (french, "à le hôtel", "à l'hôtel"),
        (french, "de le yaourt?", "du yaourt ?"),
        (french, "j'ai besoin de un vélo", "j'ai besoin d'un vélo"),
        (french, "est-ce que il a le temps?", "est-ce qu'il a le temps ?"),
        (french, "je ne ai pas de eau", "je n'ai pas d'eau"),
        (french, "à ʰonze heures de le ʰhuit mai", "à onze heures du huit mai"),
        (french, "où puis-je aller", "où puis-je aller"),
        (spanish, "cerca de el banco a el lado", "cerca del banco al lado"),
        (spanish, "hola, ¿dónde está?", "hola, ¿dónde está?"),
        (spanish, "dónde está?", "¿dónde está?"),
        (spanish, "francés y italiano", "francés e italiano"),
        (german, "in dem Park zu der Bank von dem Arzt", "im Park zur Bank vom Arzt"),
    ],
)
def test_elisions_contractions_and_signs_of_questions(language: Any, text: str, expected: str) -> None:
    assert language.finish(text) == expected


def test_capitals_come_after_marks() -> None:
    assert capitalized("¿dónde está?") == "¿Dónde está?"
    assert capitalized("à bientôt.") == "À bientôt."


def test_an_unknown_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="genitive"):
        Form.parse("the.genitive")
