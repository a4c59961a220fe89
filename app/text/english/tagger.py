"""Rule tagger: the part of speech of a word whose pronunciation depends on it.

Fewer than 800 of the 90,000 entries of the lexicon depend on it. The rules look at the nearest words on both sides, at
inflection, and at signs of past tense in the sentence. Tags are those of the Penn Treebank.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.text.english import word_classes as classes
from app.text.english.open_class import tag_open_class
from app.text.english.word_context import WordContext
from app.text.english.word_tags import FUNCTION_WORDS, HOMOGRAPHS, tag_capitals


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
            if c.lower in classes.FUNCTION:
                return "PRP"
        if c.lower in HOMOGRAPHS:
            return HOMOGRAPHS[c.lower](c)
        if c.lower.endswith("ed") and len(c.lower) > 4 and c.previous not in classes.DETERMINERS:
            return "VBN" if c.previous_verbal in classes.BE | classes.HAVE else "VBD"
        if c.lower.endswith("ing") and len(c.lower) > 5:
            return "VBG"
        return tag_open_class(c)


def tags(words: Sequence[str]) -> list[str]:
    """Return the tags of all words of one sentence."""
    tagger = Tagger(words)
    return [tagger.tag(i) for i in range(len(words))]
