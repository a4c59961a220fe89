"""A flat vocabulary for the ear: each word of the lexicon is heard about as often as another of its rank.

A word of three to twelve letters is common where misaki's lexicons list an inflected form of it. Common words and
their regular inflections, as far as misaki can speak them, have most of the slots; the other words share the rest.
Names are the lexicon's, too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from app.text.english.lexicon import get_lexicon
from training import words
from training.corpus import Writer, lexicon_words

COMMON, INFLECTED = 0.8, 0.08  # shares of the open slots; the rest is of the other words

# {word} is any word; the words around it are of the house voice's lists.
FLAT_TEMPLATES = """
the {word} {word} {where} the {word}
a {word} and a {word}
{who} {modal} {do} the {word} {word}
the {word} is {word} and {word}
{question} did {whom} {do} the {word} of {word}
{who} said that the {word} was {word}
{word} {where} {word} and {word}
{thing} and the {word} {word}
no {word} or {word} for {whom} today
there is a {word} {word} in the {word}
{do} {word} and {word}, please
{word} of {word} to {word}
it was a {word} of {word} {word}
{who} {modal} {do} my {word}, your {word} and the {word}
{conjunction} {who} {goes}, the {word} {word} is {word}
the {word} has {word} with {word}
our {word} at {word} and their {word} by {word}
{word} {word} the {word} {word}
{name} and {name} {do} the {word} {word}
the train to {name} leaves at {number}
{who} {does} {name} and {name}
is {name} {word} or {word}?
the {word} of {name} is {where} {name}
{name} said that the {word} from {name} was {word}
""".strip().splitlines()


class Rounds:
    """Words without end: each once in every round, in a new order."""

    def __init__(self, rng: random.Random, given: Sequence[str]) -> None:
        self._rng, self._given = rng, list(given)
        self._left: list[str] = []

    def next(self) -> str:
        """Return the next word."""
        if not self._left:
            self._left = list(self._given)
            self._rng.shuffle(self._left)
        return self._left.pop()


def inflections(word: str) -> list[str]:
    """Return the regular forms in -s or -es, -ed and -ing by spelling."""
    if re.search("(s|x|z|ch|sh)$", word):
        plural = f"{word}es"
    elif re.search("[^aeiou]y$", word):
        plural = f"{word[:-1]}ies"
    else:
        plural = f"{word}s"
    stem = word.removesuffix("e") if not word.endswith(("ee", "oe", "ye")) else word
    past = f"{word[:-1]}ied" if plural.endswith("ies") and word.endswith("y") else f"{word}ed"
    return [plural, f"{word}d" if word.endswith("e") else past, f"{stem}ing"]


def ranked() -> tuple[list[str], list[str], list[str]]:
    """Return the common words, their inflections that misaki speaks and the lexicon lacks, and the other words."""
    lexicon = get_lexicon(british=False)
    plain = lexicon_words()
    known = set(plain)
    listed = {word for line in (words.NOUNS, words.ADJECTIVES, words.BASE_VERBS) for word in line}
    common, others, forms = [], [], set()
    for word in plain:
        forms_of = inflections(word)
        found = [form for form in forms_of if form not in known]
        listed_form = len(found) < len(forms_of) or any(lexicon.silver(form) is not None for form in found)
        if word not in listed and not listed_form:
            others.append(word)
            continue
        common.append(word)
        forms.update(form for form in found if lexicon.pronounce(form) is not None)
    return common, sorted(forms), others


class FlatWriter(Writer):
    """Writes sentences and rows of words whose open slots take words in rounds; none that `refused` names."""

    def __init__(self, rng: random.Random, refused: Callable[[str], bool]) -> None:
        common, forms, others = ranked()
        super().__init__(rng, common)
        self._refused = refused
        self._rounds = [Rounds(rng, given) for given in (common, forms, others)]
        self._names = [Rounds(rng, given) for given in (words.NAMES, lexicon_words("[A-Z][a-z]{2,11}"))]

    def _slot(self, name: str) -> str:
        if name == "word":
            shares = (COMMON, INFLECTED, 1 - COMMON - INFLECTED)
            return self._rng.choices(self._rounds, shares)[0].next()
        if name == "name":
            return self._rng.choice(self._names).next()
        return super()._slot(name)

    def flat(self) -> str:
        """Return a sentence or, one time in three, a row of words with a few function words between them."""
        while True:
            if self._rng.random() < 1 / 3:
                joints = ("", "", "", "the ", "a ", "and ", "of ", "to ", "is ", "in ", "for ")
                count = self._rng.randint(3, 7)
                row = " ".join(self._rng.choice(joints) + "{word}" for _ in range(count))
                text = self.fill(row)
            else:
                text = self.fill(self._rng.choice(FLAT_TEMPLATES))
            if not self._refused(text):
                return text if text.endswith("?") else text + self._rng.choice("...?!")


def counted(lines: Iterable[str]) -> Counter[str]:
    """Return how often each word is in the lines, in lower case."""
    return Counter(word for line in lines for word in re.findall("[a-z']+", line.lower()))
