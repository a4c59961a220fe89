"""The phrase grammar: templates with slots, and how a choice of words becomes a sentence in four languages.

A slot is ``{class}``, ``{class:form}``, ``{class@other:form}`` (agrees with another slot) or ``{class:form+adjective}``
(a noun phrase with an adjective); digits after a class tell several words of it apart. Classes of one entry need not be
in the English: they are words that only the other languages inflect.
"""

from __future__ import annotations

import hashlib
import math
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, product
from pathlib import Path

from training.phrasebook import english, french, german, spanish
from training.phrasebook.forms import Adjective, Form, Noun, Verb, capitalized
from training.phrasebook.lexicon import LANGUAGES, SLOT, Entry, class_of, load

PHRASES = Path(__file__).parent / "phrases"
RULES = {"es": spanish, "fr": french, "de": german}
FINISH = {"en": english.finish, "es": spanish.finish, "fr": french.finish, "de": german.finish}
OPENER = "opener"
# One in so many combinations of a template is held out, where it has at least `ENOUGH` of them.
HELD_OUT, ENOUGH = 20, 40
# Templates with fewer or more combinations are drawn as often as those with so many.
FEW, MANY = 52.5, 200_000

Choice = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place to fill. `agree` names the slot it agrees with, `extra` that of an adjective in the noun phrase."""

    variable: str
    agree: str | None
    form: Form
    extra: str | None


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence: `texts` by language, and whether its combination of words is held out of training."""

    template: str
    texts: dict[str, str]
    held_out: bool


def parse(text: str) -> list[str | Slot]:
    """Literals and slots in turn. Raises ValueError for a brace that belongs to no slot."""
    parts: list[str | Slot] = []
    end = 0
    for match in SLOT.finditer(text):
        parts.append(text[end : match.start()])
        parts.append(Slot(match[1], match[2], Form.parse(match[3] or ""), match[4]))
        end = match.end()
    parts.append(text[end:])
    if any(isinstance(part, str) and ("{" in part or "}" in part) for part in parts):
        raise ValueError(f"a slot cannot be read: {text!r}")
    return [part for part in parts if part != ""]


def agreement(entry: Entry, language: str) -> tuple[str, str, bool]:
    """(person, gender, plural) that a slot agreeing with `entry` takes, before its own form is asked."""
    word = entry.words[language]
    return entry.person, word.gender if isinstance(word, Noun) else entry.gender, entry.person in ("1p", "3p")


def render(slot: Slot, language: str, choice: Choice) -> str:
    """The words that fill `slot`."""
    entry = choice[slot.variable]
    other = choice[slot.agree] if slot.agree else None
    if language == "en":
        person = other.person if other and other.kind == "subject" else ""
        if entry.kind == "noun":
            return english.noun(entry.name, slot.form)
        if entry.kind == "verb":
            return english.verb(entry.name, slot.form, person)
        return english.adjective(entry.name, slot.form) if entry.kind == "adjective" else entry.name
    rules, word = RULES[language], entry.words[language]
    if isinstance(word, Noun):
        extra = choice[slot.extra].words[language] if slot.extra else None
        assert extra is None or isinstance(extra, Adjective)
        return rules.noun_phrase(word, slot.form, extra).replace("_", " ")
    person, gender, plural = agreement(other, language) if other else ("", "m", False)
    if isinstance(word, Adjective):
        return rules.agree(word, gender, plural or slot.form.plural).replace("_", " ")
    return rules.conjugate(word, slot.form, person) if isinstance(word, Verb) else word


@dataclass(frozen=True)
class Template:
    """A sentence with slots in every language; `mark` ends all of them. `openable` ones may follow an opener."""

    texts: tuple[str, ...]
    mark: str
    openable: bool

    @cached_property
    def parts(self) -> dict[str, list[str | Slot]]:
        return {language: parse(text) for language, text in zip(LANGUAGES, self.texts, strict=True)}

    @cached_property
    def opened_parts(self) -> dict[str, list[str | Slot]]:
        """Return the parts with an opener before the sentence, outside the question in Spanish."""
        lead: list[str | Slot] = [Slot(OPENER, None, Form(), None), ", "]
        opening = {"?": "¿", "!": "¡"}.get(self.mark, "")
        return {key: [*lead, *([opening] if key == "es" else []), *parts] for key, parts in self.parts.items()}

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Every slot's variable, of all languages, in order of appearance."""
        found: dict[str, None] = {}
        for parts in self.parts.values():
            for part in parts:
                if isinstance(part, Slot):
                    found |= dict.fromkeys(name for name in (part.variable, part.extra, part.agree) if name)
        return tuple(found)

    @cached_property
    def combinations(self) -> int:
        """Ways to fill the slots, an opener aside."""
        return math.prod(len(load()[class_of(variable)]) for variable in self.variables)

    def choose(self, rng: random.Random) -> dict[str, Entry]:
        """A random choice of words; those of one class differ."""
        lexicon = load()
        while True:
            choice = {variable: rng.choice(lexicon[class_of(variable)]) for variable in self.variables}
            if len({(class_of(variable), entry.name) for variable, entry in choice.items()}) == len(choice):
                return choice

    def text(self, language: str, choice: Choice, opener: Entry | None = None) -> str:
        """The sentence in one language, beginning with a capital and ending with its mark."""
        parts = (self.parts if opener is None else self.opened_parts)[language]
        words = choice if opener is None else {**choice, OPENER: opener}
        body = "".join(part if isinstance(part, str) else render(part, language, words) for part in parts)
        return capitalized(FINISH[language](body.strip() + self.mark))

    def is_held_out(self, choice: Choice) -> bool:
        """Return whether a sentence is held out. Its English without opener decides, so no other template trains it."""
        if self.combinations < ENOUGH:
            return False
        english = self.text("en", choice)
        digest = hashlib.blake2b(english.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % HELD_OUT == 0 and english not in always_trained()

    def fill(self, choice: Choice, opener: Entry | None = None) -> Pair:
        """The sentence in every language."""
        texts = {language: self.text(language, choice, opener) for language in LANGUAGES}
        return Pair(self.texts[0], texts, self.is_held_out(choice))


@cache
def templates() -> tuple[Template, ...]:
    """All templates, in the order of their files. Raises ValueError for one that is there twice or has no mark."""
    found: dict[str, Template] = {}
    for path in sorted(PHRASES.glob("*.toml")):
        for kind, rows in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for row in rows:
                head, mark = row[0][:-1], row[0][-1]
                if mark not in ".?!" or len(row) != len(LANGUAGES) or head + mark in found:
                    raise ValueError(f"{path.name}: {row[0]!r}")
                found[head + mark] = Template((head, *row[1:]), mark, kind == "openable")
    return tuple(found.values())


@cache
def always_trained() -> frozenset[str]:
    """The English of all that templates with few combinations make."""
    lexicon = load()
    made = set()
    for template in templates():
        if template.combinations < ENOUGH:
            entries = [lexicon[class_of(variable)] for variable in template.variables]
            made |= {template.text("en", dict(zip(template.variables, row, strict=True))) for row in product(*entries)}
    return frozenset(made)


def sentences(seed: int, *, held_out: bool, openers: float = 0.2, power: float = 0.35) -> Iterator[Pair]:
    """Endless sentences, of training or held out.

    In training a template comes more often the more combinations it has, to the power of `power`. `openers` is the
    share of openable sentences that follow an opener. Equal seeds give equal sentences.
    """
    rng = random.Random(seed)
    lexicon = load()
    able = [template for template in templates() if not held_out or template.combinations >= ENOUGH]
    # Held out, every template counts alike; in training rare sentences are seen a few times, too.
    weights = [1.0 if held_out else min(max(t.combinations, FEW), MANY) ** power for t in able]
    sums = list(accumulate(weights))
    while True:
        (template,) = rng.choices(able, cum_weights=sums)
        choice = template.choose(rng)
        opener = rng.choice(lexicon[OPENER]) if template.openable and rng.random() < openers else None
        if template.is_held_out(choice) == held_out:
            yield template.fill(choice, opener)
