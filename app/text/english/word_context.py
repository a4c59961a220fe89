"""One word of a sentence and its neighbors, for the rules of the tagger."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from app.text.english import tables


class WordContext:
    """Word `i` of a sentence. `words` are as written; `lower` are the same in small letters; "" is a punctuation mark.

    `shouting` says that the sentence is written in capitals.
    """

    def __init__(self, words: Sequence[str], lower: Sequence[str], i: int, *, shouting: bool) -> None:
        self._words = words
        self._lower = lower
        self._i = i
        self.shouting = shouting
        self.word = words[i]
        self.lower = lower[i]
        self.previous = self.at(-1)
        self.next = self.at(1)

    def at(self, offset: int) -> str:
        """Return the word at a distance, in small letters; "" outside the sentence."""
        i = self._i + offset
        return self._lower[i] if 0 <= i < len(self._lower) else ""

    @property
    def index(self) -> int:
        """Position of the word in the sentence."""
        return self._i

    @property
    def previous_as_written(self) -> str:
        """Word before this one with its capitals, or ""."""
        return self._words[self._i - 1] if self._i else ""

    @cached_property
    def previous_verbal(self) -> str:
        """Word before this one, without the adverbs between: "will" in "will not often use"."""
        i = self._i - 1
        while i >= 0 and (
            self._lower[i] in tables.ADVERBS or (self._lower[i].endswith("ly") and len(self._lower[i]) > 4)
        ):
            i -= 1
        return self._lower[i] if i >= 0 else ""

    @property
    def auxiliary(self) -> str:
        """Auxiliary of a question whose verb is this word ("Have you read it?"), or ""."""
        for j in range(self._i - 1, max(-1, self._i - 5), -1):
            word = self._lower[j]
            if word in tables.HAVE or word in tables.MODALS:
                first = j == 0 or self._lower[j - 1] in tables.QUESTION_STARTS
                return word if first and j < self._i - 1 else ""
            if not word:
                break
        return ""

    @property
    def is_inflected(self) -> bool:
        """Return whether the word may be a plural or a third person."""
        return self.lower.endswith("s") and not self.lower.endswith("ss")

    @property
    def is_past(self) -> bool:
        """Return whether some word of the sentence shows the past tense."""
        if "today" in self._lower and "every" not in self._lower and self.next in tables.DETERMINERS:
            return True
        return any(word in tables.PAST_SIGNS or (word.endswith("ed") and len(word) > 4) for word in self._lower)

    @property
    def starts_object(self) -> bool:
        """Return whether the next word begins an object or complement, as after a verb."""
        reflexive = self.next in ("myself", "yourself", "themselves")
        return self.next in tables.DETERMINERS or self.next in tables.OBJECTS or reflexive

    @property
    def starts_clause(self) -> bool:
        """Return whether the word stands first in its clause."""
        return not self.previous or self.previous in tables.CONJUNCTIONS or self.previous in tables.ADVERBS

    @property
    def ends_clause(self) -> bool:
        """Return whether the clause ends after the word."""
        after = self.next
        subordinate = after in ("when", "if", "while", "because", "with")
        return not after or after in tables.CONJUNCTIONS or after in tables.ADVERBS or subordinate

    @property
    def follows_plural(self) -> bool:
        """Return whether the word before is a plural noun that begins its clause: "Prices", "these reports"."""
        noun = self.previous
        if not noun.endswith("s") or noun.endswith(("ss", "us", "'s")):
            return False
        if noun in tables.PLURAL_MODIFIERS or noun in tables.FUNCTION:
            return False
        return self.at(-2) in tables.CLAUSE_STARTS

    @property
    def is_modifier(self) -> bool:
        """Return whether the word is an adjective before a noun."""
        return self.lower in tables.ADJECTIVES and bool(self.next) and self.next not in tables.FUNCTION
