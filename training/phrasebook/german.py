"""German forms: three genders, three cases, adjective endings, separable verbs, contractions."""

from __future__ import annotations

import re

from training.phrasebook.forms import Adjective, Form, Noun, Verb, options, read_noun, tidy

# Endings by gender or plural: nominative, accusative, dative.
STRONG = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "pl": ("e", "e", "en")}
MIXED = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "pl": ("en", "en", "en")}
WEAK = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "pl": ("en", "en", "en")}
EIN = {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "pl": ("e", "e", "en")}
DER = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "pl": ("die", "die", "den"),
}
STEMS = {"a": "ein", "my": "mein", "your": "Ihr", "no": "kein", "this": "dies", "which": "welch"}
CASE_INDEX = {"nom": 0, "acc": 1, "dat": 2}
CONTRACTIONS = {
    "in dem": "im",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "bei dem": "beim",
    "von dem": "vom",
    "in das": "ins",
}
NO_GE = re.compile(r"(be|ver|er|ent)[bcdfghjklmnprstvwz].+|.+ieren$")


def noun(text: str) -> Noun:
    word, gender, rest, named = read_noun(text)
    plural = " ".join(rest)
    plural = word if plural == "-" else word + plural[1:] if plural.startswith("-") else plural
    return Noun(word, gender, plural, weak=named.get("weak", ""))


def adjective(text: str) -> Adjective:
    words, _ = options(text)
    return Adjective(words[0], words[-1])


def verb(text: str) -> Verb:
    """`text` is a regular infinitive, or the infinitive, present I, he (and they), and the participle."""
    infinitive, *given = text.split(" ")
    prefix, _, plain = infinitive.rpartition("·")
    if given:
        first, third, *plurals, participle = given
        plural = plurals[0] if plurals else plain
    else:
        stem = re.sub("e?n$", "", plain)
        first, plural = stem + "e", plain
        third = stem + ("et" if re.search("[dt]$|[^lrh][mn]$", stem) else "t")
        participle = prefix + ("" if NO_GE.fullmatch(plain) else "ge") + third
    forms = {"inf": prefix + plain, "part": participle, "end": prefix, "imp": plural}
    forms |= {"pres 1s": first, "pres 3s": third}
    return Verb(forms | {f"pres {person}": plural for person in ("2", "1p", "3p")})


def determiner(name: str, column: str, case: int) -> str:
    if name == "the":
        return DER[column][case]
    return STEMS[name] + (STRONG if name in ("this", "which") else EIN)[column][case]


def ending(name: str, column: str, case: int) -> str:
    """Return the ending of an adjective after determiner `name`."""
    if name == "bare":
        return STRONG[column][case]
    return (WEAK if name in ("the", "this", "which") else MIXED)[column][case]


def noun_phrase(word: Noun, form: Form, extra: Adjective | None = None) -> str:
    case, column = CASE_INDEX[form.case], "pl" if form.plural else word.gender
    head = word.plural if form.plural else word.word
    if form.plural and form.case == "dat" and not re.search("[ns]$", head) and " " not in head:
        head += "n"
    if word.weak and not form.plural and case:
        head = word.weak
    parts = [] if form.determiner == "bare" else [determiner(form.determiner, column, case)]
    if extra is not None:
        parts.append(extra.feminine + ending(form.determiner, column, case))
    return " ".join([*parts, head])


def agree(word: Adjective, gender: str, plural: bool) -> str:
    """Predicative adjectives do not inflect."""
    return word.masculine


def conjugate(word: Verb, form: Form, person: str) -> str:
    return word.forms[f"pres {person}" if form.verb == "pres" else form.verb]


def finish(text: str) -> str:
    """Contract a preposition with the article after it."""
    text = tidy(text)
    for apart, together in CONTRACTIONS.items():
        text = re.sub(rf"\b{apart}\b", together, text)
        text = re.sub(rf"\b{apart.capitalize()}\b", together.capitalize(), text)
    return text
