"""Spanish forms: gender, plural, the regular conjugations, contractions, inverted marks."""

from __future__ import annotations

import re

from training.phrasebook.forms import PERSONS, Adjective, Form, Noun, Verb, options, read_noun, tidy

ARTICLES = {
    "a": {"m": ("un", "unos"), "f": ("una", "unas")},
    "the": {"m": ("el", "los"), "f": ("la", "las")},
    "my": {"m": ("mi", "mis"), "f": ("mi", "mis")},
    "your": {"m": ("su", "sus"), "f": ("su", "sus")},
    "this": {"m": ("este", "estos"), "f": ("esta", "estas")},
    "which": {"m": ("qué", "qué"), "f": ("qué", "qué")},
    "no": {"m": ("ningún", "ningunos"), "f": ("ninguna", "ningunas")},
}
PRESENT = {"ar": ("o", "a", "amos", "an"), "er": ("o", "e", "emos", "en"), "ir": ("o", "e", "imos", "en")}
PAST = {"ar": ("é", "ó", "amos", "aron"), "er": ("í", "ió", "imos", "ieron"), "ir": ("í", "ió", "imos", "ieron")}
COLUMNS = ("1s", "3s", "1p", "3p")


def plural_of(word: str) -> str:
    if word.endswith("z"):
        return word[:-1] + "ces"
    return word + ("s" if word[-1] in "aeiouéáó" else "es")


def noun(text: str) -> Noun:
    word, gender, flags, named = read_noun(text)
    return Noun(word, gender, named.get("pl") or plural_of(word), frozenset(flags))


def adjective(text: str) -> Adjective:
    words, named = options(text)
    masculine = words[0]
    feminine = words[1] if len(words) > 1 else re.sub("o$", "a", masculine)
    plurals = [named.get("pl") or plural_of(word) for word in (masculine, feminine)]
    return Adjective(masculine, feminine, *plurals)


def respell(stem: str, ending: str) -> str:
    """Keep the sound of a stem in -c, -g or -z before e."""
    if ending[0] in "eé":
        stem = re.sub("z$", "c", re.sub("g$", "gu", re.sub("c$", "qu", stem)))
    return stem + ending


def verb(text: str) -> Verb:
    """`text` is a regular infinitive, or the infinitive, four present forms and four past forms (optional)."""
    infinitive, *given = text.split(" ")
    stem, kind = infinitive[:-2], infinitive[-2:]
    if given:
        present, past = given[:4], given[4:]
    else:
        present = [stem + ending for ending in PRESENT[kind]]
        past = [respell(stem, ending) for ending in PAST[kind]]
    forms = {"inf": infinitive}
    for tense, row in (("pres", present), ("past", past)):
        forms |= {f"{tense} {person}": word for person, word in zip(COLUMNS, row, strict=False)}
        forms |= {f"{tense} 2": forms[f"{tense} 3s"]} if row else {}
    # The polite imperative is a subjunctive: the stem of `I` with the other vowel.
    forms["imp"] = respell(re.sub("o$", "", present[0]), "e" if kind == "ar" else "a")
    return Verb(forms)


def agree(word: Adjective, gender: str, plural: bool) -> str:
    if plural:
        return word.feminine_plural if gender == "f" else word.masculine_plural
    return word.feminine if gender == "f" else word.masculine


def noun_phrase(word: Noun, form: Form, extra: Adjective | None = None) -> str:
    phrase = word.plural if form.plural else word.word
    if form.determiner != "bare":
        gender = "m" if "el" in word.flags and form.determiner in ("a", "the") and not form.plural else word.gender
        phrase = f"{ARTICLES[form.determiner][gender][form.plural]} {phrase}"
    return phrase if extra is None else f"{phrase} {agree(extra, word.gender, form.plural)}"


def conjugate(word: Verb, form: Form, person: str) -> str:
    return word.forms[form.verb if form.verb not in ("pres", "past") else f"{form.verb} {person}"]


def finish(text: str) -> str:
    """Contract, and open what a question or exclamation mark closes unless the template did."""
    text = tidy(text)
    text = re.sub(r"\b([Dd]e|[Aa]) el\b", lambda m: m[1] + "l", text)
    text = re.sub(r"\by (?=h?i(?!e))", "e ", text)
    for opening, closing in ("¿?", "¡!"):
        if text.endswith(closing) and opening not in text:
            text = opening + text
    return text


assert set(COLUMNS) < set(PERSONS)
