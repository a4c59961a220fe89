"""Part of speech and sense of the words whose pronunciation depends on them.

Fewer than 800 of the 90,000 entries of the lexicon depend on the part of speech. The rules look at the nearest words
on both sides, at inflection, and at signs of past tense in the sentence. Tags are those of the Penn Treebank. Where
the tag is not enough, the neighbors decide: they tell "lead" the metal from "lead" the first place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from app.text.english import tables
from app.text.english.tag_rules import FUNCTION_WORDS, HOMOGRAPHS, tag_capitals, tag_open_class
from app.text.english.word_context import WordContext


class Tagger:
    """Tagger of the words of one sentence, on demand. `words` are in order; "" stands for a punctuation mark."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._lower = [word.lower().replace("’", "'") for word in words]
        capitals = sum(word.isupper() and len(word) > 1 for word in words)
        total = sum(len(word) > 1 for word in words)
        # In a text all in capitals "IT" and "US" are pronouns; elsewhere they are acronyms.
        self._shouting = capitals >= 2 and (capitals == total or (capitals >= 4 and capitals > 0.7 * total))

    @property
    def shouting(self) -> bool:
        """Whether the sentence is written in capitals."""
        return self._shouting

    @property
    def words(self) -> Sequence[str]:
        """The words in small letters."""
        return self._lower

    def tag(self, i: int) -> str:
        """Return the Penn Treebank tag of word `i`."""
        c = WordContext(self._words, self._lower, i, shouting=self._shouting)
        if c.word == "I":
            return "PRP"
        if c.lower in FUNCTION_WORDS:
            return FUNCTION_WORDS[c.lower](c)
        if c.lower == "am" and c.word != "AM":
            return "VBP"
        if c.word.isupper() and len(c.word) > 1:
            if not self._shouting:
                return tag_capitals(c)
            if c.lower == "us" and c.next and (i == 0 or c.previous in ("", "the")):
                return "NNP"  # the country: "US TO JOIN TALKS"
            if c.lower in tables.FUNCTION:
                return "PRP"
        if c.lower in HOMOGRAPHS:
            return HOMOGRAPHS[c.lower](c)
        if c.lower.endswith("ed") and len(c.lower) > 4 and c.previous not in tables.DETERMINERS:
            return "VBN" if c.previous_verbal in tables.BE | tables.HAVE else "VBD"
        if c.lower.endswith("ing") and len(c.lower) > 5:
            return "VBG"
        return tag_open_class(c)


class Sense(NamedTuple):
    """Sound of a word in one of its senses: American and British phonemes.

    The sense applies if the tag of the word begins with `tag`, and a word or pair of words of `before` is before it,
    one of `after` follows, or one of `near` is within four words. If all three are "-" the tag is enough. A word of
    `not_after` before it, or of `not_before` after it, excludes the sense. Each is an expression of the words.
    """

    american: str
    british: str
    tag: str
    before: str
    after: str
    near: str
    not_after: str
    not_before: str

    def is_meant(self, words: Sequence[str], i: int, tag: str) -> bool:
        """Return whether word `i` of a sentence in small letters, tagged `tag`, has this sense."""
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        if (
            not tag.startswith(self.tag.strip("-"))
            or _is_one(before, self.not_after)
            or _is_one(after, self.not_before)
        ):
            return False
        if self.before == self.after == self.near == "-":
            return True
        pair = f"{words[i - 2]} {before}" if i > 1 else ""
        beside = _is_one(before, self.before) or _is_one(pair, self.before) or _is_one(after, self.after)
        return beside or any(_is_one(word, self.near) for word in (*words[max(0, i - 4) : i], *words[i + 1 : i + 5]))


def _is_one(word: str, expression: str) -> bool:
    return re.fullmatch(expression, word) is not None


_SENSES: Final[dict[str, list[Sense]]] = defaultdict(list)
for _word, *_columns in tables.ROWS["sense"]:
    _SENSES[_word].append(Sense(*_columns))
_WORDS: Final = {word: sounds for word, *sounds in tables.ROWS["sound"]}
"""Words that the lexicons lack or have wrong: American and British phonemes."""


def has_sense(word: str) -> bool:
    """Return whether `sound_by_sense` knows a word, given in small letters."""
    word = word.removesuffix("'s")
    return word in _SENSES or word in _WORDS or word[:3] == "shh"


def sound_by_sense(words: Sequence[str], i: int, tag: str, *, british: bool) -> str | None:
    """Return the phonemes of word `i` of a sentence in small letters, or None if the lexicon decides.

    A possessive is pronounced without its ending.
    """
    word = words[i].removesuffix("'s")
    if word in _WORDS:
        return _WORDS[word][british]
    if word[:3] == "shh" and not word.strip("sh"):
        return "ʃ"
    for meant in _SENSES.get(word, ()):
        if meant.is_meant(words, i, tag):
            return meant.british if british else meant.american
    return None
