"""English forms."""

from __future__ import annotations

import re

from training.phrasebook.forms import Form, tidy

VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
NOT_A_VOWEL = re.compile(r"(uni|use|eur|one)", re.IGNORECASE)
PERSON_INDEX = {"1s": 0, "3s": 1}
# A contraction and what it stands for. The coverage reads both, the network learns both.
CONTRACTIONS = {
    "i'm": "i am",
    "i'd": "i would",
    "we'd": "we would",
    "it's": "it is",
    "he's": "he is",
    "she's": "she is",
    "we're": "we are",
    "they're": "they are",
    "you're": "you are",
    "that's": "that is",
    "what's": "what is",
    "where's": "where is",
    "there's": "there is",
    "don't": "do not",
    "doesn't": "does not",
    "didn't": "did not",
    "isn't": "is not",
    "aren't": "are not",
    "can't": "cannot",
    "couldn't": "could not",
}


def plural_of(word: str) -> str:
    """Return the plural of a regular noun."""
    if re.search(r"(s|x|sh|ch|tomato|potato)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    if re.search(r"(knife|wife)$", word):
        return word[:-2] + "ves"
    return {"foot": "feet", "tooth": "teeth"}.get(word, word + "s")


def article(phrase: str) -> str:
    """`a` or `an`, by the sound that `phrase` begins with."""
    return "an" if VOWEL.match(phrase) and not NOT_A_VOWEL.match(phrase) else "a"


def noun(name: str, form: Form) -> str:
    """`name` is the singular, with the plural after a slash where it is not regular."""
    singular, _, plural = name.partition("/")
    word = (plural or plural_of(singular)) if form.plural else singular
    if form.determiner == "a":
        return f"{article(word)} {word}"
    if form.determiner == "this":
        return f"{'these' if form.plural else 'this'} {word}"
    return word if form.determiner == "bare" else f"{form.determiner} {word}"


def adjective(name: str, form: Form) -> str:
    """Bare or with the indefinite article."""
    return f"{article(name)} {name}" if form.determiner == "a" else name


def verb(name: str, form: Form, person: str) -> str:
    """`name` is ``base``, ``base/past`` or ``I|he|we`` forms; of several words the first is inflected."""
    if "|" in name:
        return name.split("|")[PERSON_INDEX.get(person, 2)]
    base, _, past = name.partition("/")
    first, _, rest = base.partition(" ")
    if form.verb == "past":
        if past:
            return past
        first = re.sub(r"([^aeiou])y$", r"\1i", first)
        first += "d" if first.endswith("e") else "ed"
    elif form.verb == "pres" and person == "3s":
        first = re.sub(r"([^aeiou])y$", r"\1ie", first)
        first += "es" if re.search(r"(s|x|sh|ch|o)$", first) else "s"
    return f"{first} {rest}".strip()


def group(person: str) -> str:
    """The part of the persons that share every verb form."""
    return person if person in PERSON_INDEX else "others"


def finish(text: str) -> str:
    """`I` in upper case, and `an` before a vowel."""
    text = re.sub(r"\bi\b", "I", tidy(text))
    return re.sub(r"\ba (?=\w)", lambda m: f"{article(text[m.end() :])} ", text)
