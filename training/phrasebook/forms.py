"""Forms that a slot of a template asks for, and the parts of inflection that all languages share."""

from __future__ import annotations

import re
from dataclasses import dataclass

CASES = ("nom", "acc", "dat")
VERB_FORMS = ("base", "inf", "pres", "past", "part", "imp", "end")
DETERMINERS = ("bare", "a", "the", "my", "your", "this", "which", "no")
# The persons of a subject. `2` is the polite form of address.
PERSONS = ("1s", "2", "3s", "1p", "3p")
MARK = "ʰ"  # before a word that takes no elision


@dataclass(frozen=True, slots=True)
class Form:
    """The inflection a slot asks for; what does not concern the word's class is left at its default."""

    determiner: str = "bare"
    plural: bool = False
    case: str = "nom"
    verb: str = "pres"

    @classmethod
    def parse(cls, spec: str) -> Form:
        """From words joined by dots, such as ``the.pl.dat`` or ``past``. Raises ValueError for an unknown word."""
        found: dict[str, str | bool] = {}
        for word in filter(None, spec.split(".")):
            if word == "pl":
                found["plural"] = True
            elif word in CASES:
                found["case"] = word
            elif word in VERB_FORMS:
                found["verb"] = word
            elif word in DETERMINERS:
                found["determiner"] = word
            else:
                raise ValueError(f"unknown form: {word!r} in {spec!r}")
        return cls(**found)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun of Spanish, French or German. `weak` is German's singular outside the nominative, where it differs."""

    word: str
    gender: str
    plural: str
    flags: frozenset[str] = frozenset()
    weak: str = ""


@dataclass(frozen=True, slots=True)
class Adjective:
    """Forms of an adjective. German has one: `masculine`, with the stem of its endings in `feminine`."""

    masculine: str
    feminine: str
    masculine_plural: str = ""
    feminine_plural: str = ""
    before: bool = False
    vowel: str = ""


@dataclass(frozen=True, slots=True)
class Verb:
    """Forms by name: `inf`, `part`, `imp`, `end` and `<tense> <person>`."""

    forms: dict[str, str]


def options(text: str) -> tuple[list[str], dict[str, str]]:
    """Split ``word flag name=some value`` into its words and its named values; a value reaches to the line's end."""
    named: dict[str, str] = {}
    while match := re.search(r" (pl|weak|vowel)=([^=]+)$", text):
        named[match[1]] = match[2]
        text = text[: match.start()]
    return text.split(" "), named


def read_noun(text: str) -> tuple[str, str, list[str], dict[str, str]]:
    """(word, gender, what follows, named values). Raises ValueError where no gender is given."""
    words, named = options(text)
    for i in range(1, len(words)):
        if words[i] in ("m", "f", "n"):
            return " ".join(words[:i]), words[i], words[i + 1 :], named
    raise ValueError(f"no gender: {text!r}")


def capitalized(text: str) -> str:
    """With its first letter in upper case, wherever marks precede it."""
    for i, letter in enumerate(text):
        if letter.isalpha():
            return text[:i] + letter.upper() + text[i + 1 :]
    return text


def tidy(text: str) -> str:
    """One space between words, none before a comma."""
    return re.sub(r" +(?=,)", "", " ".join(text.split()))
