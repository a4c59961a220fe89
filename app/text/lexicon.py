"""Pronunciation lexicons of users: words and phrases, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.errors import InvalidLexiconError, MarkupError
from app.text.alphabets import to_symbols
from app.text.languages import nearest_language, primary_language
from app.text.types import Reading

MAX_ENTRIES: Final = 20_000
"""Most entries of one lexicon."""
MAX_GRAPHEME: Final = 100
"""Most characters of a word or phrase."""
# Words that are looked up in one turn.
_TURN: Final = 200
MAX_ALIAS: Final = 500
"""Most characters of the words in its place."""

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class LexiconEntry:
    """A word or phrase that is read as `phonemes` of the models, or else as the text `alias`.

    A grapheme in small letters matches any case, others only their own, unless `any_case` says otherwise.
    """

    grapheme: str
    phonemes: str = ""
    alias: str = ""
    any_case: bool | None = None

    @property
    def matches_any_case(self) -> bool:
        """Whether characters that are equal but for their case are this entry's."""
        return self.grapheme.islower() if self.any_case is None else self.any_case


def make_entry(
    grapheme: str,
    *,
    phonemes: str = "",
    alphabet: str = "ipa",
    alias: str = "",
    language: str | None = None,
    any_case: bool | None = None,
) -> LexiconEntry:
    """Return a checked entry.

    Args:
        grapheme: Word or phrase, as it is written.
        phonemes: Its pronunciation in `alphabet`.
        alphabet: A name of `app.text.alphabets.ALPHABETS`.
        alias: Text to read in its place, if there are no phonemes.
        language: Tag of the lexicon's language.
        any_case: Whether it matches any case; None: if it is in small letters.

    Raises:
        InvalidLexiconError: A part is missing, too long or unknown.
    """
    shown = repr(grapheme[:40])
    if len(grapheme) > MAX_GRAPHEME or not _TOKEN.search(grapheme):
        raise InvalidLexiconError(f"entry {shown} needs a word of 1 to {MAX_GRAPHEME} characters")
    if phonemes.strip():
        english = primary_language(language or "en") == "en"
        try:
            return LexiconEntry(
                grapheme, to_symbols(phonemes, grapheme, alphabet=alphabet, english=english), any_case=any_case
            )
        except MarkupError as error:
            raise InvalidLexiconError(str(error)) from None
    if not alias.strip() or len(alias) > MAX_ALIAS:
        raise InvalidLexiconError(f"entry {shown} needs phonemes, or an alias of 1 to {MAX_ALIAS} characters")
    return LexiconEntry(grapheme, alias=alias.strip(), any_case=any_case)


@dataclass(slots=True)
class _Node:
    """Node of a tree of tokens: nodes by the next token and whether space is before it, and entries that end here.

    Of entries with one spelling, and of those for any case, the first counts. `cases` are those that only match as
    they are written and come before `any_case`.
    """

    following: dict[tuple[bool, str], _Node] = field(default_factory=dict)
    cases: dict[str, LexiconEntry] = field(default_factory=dict)
    any_case: LexiconEntry | None = None

    def add(self, entry: LexiconEntry) -> None:
        """Add an entry that ends here."""
        if self.any_case is None and entry.matches_any_case:
            self.any_case = entry
        elif self.any_case is None:
            self.cases.setdefault(" ".join(entry.grapheme.split()), entry)

    def find(self, written: str) -> LexiconEntry | None:
        """Return the entry of characters that are equal but for their case."""
        exact = self.cases.get(" ".join(written.split())) if self.cases else None
        return exact or self.any_case


class Lexicon:
    """Entries of one lexicon. `language` is a BCP-47 tag, a variety or a whole language; None: every language."""

    def __init__(self, entries: Sequence[LexiconEntry], language: str | None = None) -> None:
        if len(entries) > MAX_ENTRIES:
            raise InvalidLexiconError(f"the lexicon has {len(entries)} entries; at most {MAX_ENTRIES} are accepted")
        self.entries = tuple(entries)
        self.language = language
        self._root = _Node()
        for entry in entries:
            node, end = self._root, 0
            for token in _TOKEN.finditer(entry.grapheme):
                key = bool(end) and token.start() > end, token.group().casefold()
                node = node.following.setdefault(key, _Node())
                end = token.end()
            node.add(entry)

    def speaks(self, language: str) -> bool:
        """Return whether it applies to texts in `language`, a tag of `app.text.languages`."""
        if self.language is None:
            return True
        own = nearest_language(self.language, language)
        return own == language if own is not None else primary_language(self.language) == primary_language(language)

    def longest(self, text: str, tokens: Sequence[re.Match[str]], first: int) -> tuple[LexiconEntry, int] | None:
        """Return the longest entry that begins at token `first`, and the number of the token after it."""
        node, best = self._root, None
        for number in range(first, len(tokens)):
            token = tokens[number]
            apart = number > first and token.start() > tokens[number - 1].end()
            following = node.following.get((apart, token.group().casefold()))
            if following is None:
                break
            node = following
            found = node.find(text[tokens[first].start() : token.end()])
            if found is not None:
                best = found, number + 1
        return best


def find_readings(
    text: str, lexicons: Iterable[Lexicon], language: str, taken: Sequence[tuple[int, int]] = ()
) -> Iterator[Reading | None]:
    """Yield the readings that lexicons give to words of a text, in order, and None where others may have a turn.

    Args:
        text: The text.
        lexicons: The first that knows a word decides; of its entries the longest counts.
        language: Tag of the text's language.
        taken: Characters [start, end) that have a reading already, in order.
    """
    used = [lexicon for lexicon in lexicons if lexicon.entries and lexicon.speaks(language)]
    tokens = list(_TOKEN.finditer(text)) if used else []
    number, block, looked_up = 0, 0, 0
    while number < len(tokens):
        looked_up += 1
        if looked_up % _TURN == 0:
            yield None
        start = tokens[number].start()
        while block < len(taken) and taken[block][1] <= start:
            block += 1
        found = next((each for lexicon in used if (each := lexicon.longest(text, tokens, number))), None)
        end = start if found is None else tokens[found[1] - 1].end()
        if found is None or (block < len(taken) and taken[block][0] < end):
            number += 1
            continue
        entry, number = found
        yield Reading(start, end, start, end, phonemes=entry.phonemes, alias=entry.alias, source="user-lexicon")
