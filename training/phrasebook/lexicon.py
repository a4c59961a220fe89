"""The words of the phrase grammar, read from `words/*.toml`: classes of entries in four languages."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from training.phrasebook import french, german, spanish
from training.phrasebook.forms import PERSONS, Adjective, Noun, Verb

WORDS = Path(__file__).parent / "words"
TARGETS = ("es", "fr", "de")
LANGUAGES = ("en", *TARGETS)
SLOT = re.compile(r"\{(\w+)(?:@(\w+))?(?::([\w.]+))?(?:\+(\w+))?\}")

Kind = Literal["noun", "adjective", "verb", "subject", "phrase"]
KINDS: dict[str, Kind] = {
    "nouns": "noun",
    "adjectives": "adjective",
    "verbs": "verb",
    "subjects": "subject",
    "phrases": "phrase",
}
READERS: dict[Kind, tuple[Callable[[str], Noun | Adjective | Verb], ...]] = {
    "noun": (spanish.noun, french.noun, german.noun),
    "adjective": (spanish.adjective, french.adjective, german.adjective),
    "verb": (spanish.verb, french.verb, german.verb),
}


@dataclass(frozen=True)
class Entry:
    """One word or phrase. `name` is its English with irregular forms; `words` its translations by language.

    Subjects have a `person` (of `forms.PERSONS`) and a `gender`; subjects and phrases are plain strings.
    """

    name: str
    kind: Kind
    words: dict[str, Noun | Adjective | Verb | str]
    person: str = "3s"
    gender: str = "m"


Lexicon = dict[str, list[Entry]]


def class_of(variable: str) -> str:
    """`place2` is a second word of class `place`."""
    return variable.rstrip("0123456789")


def read_entry(kind: Kind, name: str, row: list[str]) -> Entry:
    """Raises ValueError when the row has a wrong number of columns or a person that does not exist."""
    person, gender = "3s", "m"
    if kind == "subject":
        person, gender = row[0].split()
        row = row[1:]
        if person not in PERSONS:
            raise ValueError(f"{name}: unknown person {person!r}")
    if len(row) != len(TARGETS):
        raise ValueError(f"{name}: {len(row)} translations, not {len(TARGETS)}")
    readers = READERS.get(kind)
    words = [text if readers is None else readers[i](text) for i, text in enumerate(row)]
    return Entry(name, kind, dict(zip(TARGETS, words, strict=True)), person, gender)


def expanded(entry: Entry, lexicon: Lexicon) -> Iterator[Entry]:
    """A phrase with slots becomes one entry for every way to fill them."""
    variables = list(dict.fromkeys(match[1] for match in SLOT.finditer(entry.name)))
    if not variables:
        yield entry
        return
    for chosen in itertools.product(*(lexicon[class_of(variable)] for variable in variables)):
        by_name = dict(zip(variables, chosen, strict=True))

        def fill(language: str, text: str, by_name: dict[str, Entry] = by_name) -> str:
            def word(match: re.Match[str]) -> str:
                entry = by_name[match[1]]
                return entry.name if language == "en" else str(entry.words[language])

            return SLOT.sub(word, text)

        words = {language: fill(language, str(text)) for language, text in entry.words.items()}
        yield Entry(fill("en", entry.name), "phrase", dict(words))


@cache
def load() -> Lexicon:
    """All classes. Raises ValueError for a class or an entry that is there twice."""
    lexicon: Lexicon = {}
    for stem, kind in KINDS.items():
        for name, rows in tomllib.loads((WORDS / f"{stem}.toml").read_text(encoding="utf-8")).items():
            if name in lexicon:
                raise ValueError(f"class {name!r} is there twice")
            lexicon[name] = []
            for english, row in rows.items():
                lexicon[name] += expanded(read_entry(kind, english, row), lexicon)
            if len({entry.name for entry in lexicon[name]}) != len(lexicon[name]):
                raise ValueError(f"an entry of {name!r} is there twice")
    return lexicon
