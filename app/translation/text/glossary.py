"""Glossary: terms with fixed translations, and addresses and names of values, which are not translated."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from app.errors import InvalidRequestError
from app.text.scripts import script_of
from app.translation.text.placeholders import VERBATIM, Placeholders

MAX_TERM_CHARACTERS: Final = 200
"""Most characters of a term, in each language."""

MAX_TERMS: Final = 10_000

_invalid = partial(InvalidRequestError, param="glossary")

# Scripts without spaces between words: a term may begin and end anywhere.
_UNSPACED: Final = frozenset(("Hani", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"))
# Scripts that attach particles to nouns: a term may end inside a word.
_SUFFIXED: Final = frozenset(("Hang",))


@dataclass(frozen=True, slots=True)
class Protected:
    """Text with placeholders for terms and addresses. `targets` are their translations, in order."""

    text: str
    targets: tuple[str, ...]
    _placeholders: Placeholders | None = None

    def shown(self, text: str) -> str:
        """Return a text about this one, such as an error, with the target terms in place of their placeholders."""
        return text if self._placeholders is None else self._placeholders.fill(text, self.targets)

    def restore(self, translation: str) -> str | None:
        """Return the translation with its target terms, or None if a placeholder was lost or doubled."""
        if self._placeholders is None:
            return translation
        places = self._placeholders.find(translation, len(self.targets))
        if places is None:
            return None
        pieces: list[str] = []
        position = 0
        for place in places:
            pieces += (translation[position : place.start], self.targets[place.index])
            position = place.end
        return "".join((*pieces, translation[position:]))

    def runs(self) -> tuple[str, ...]:
        """Return the text before, between and after the placeholders: one run more than there are `targets`.

        If a placeholder was lost, translate the runs one by one and join them around the targets.
        """
        runs: list[str] = []
        position = 0
        for place in (self._placeholders.find(self.text, len(self.targets)) or []) if self._placeholders else []:
            runs.append(self.text[position : place.start])
            position = place.end
        return (*runs, self.text[position:])


class Glossary:
    """Source terms and their target terms.

    A term matches whole words in any case; the longest term and the exact case come first. In scripts without spaces a
    term matches anywhere, and in Korean a particle may follow. Matching takes time linear in the text.

    Raises InvalidRequestError for an empty or overlong term, or for too many terms.
    """

    def __init__(self, terms: Mapping[str, str] | None = None) -> None:
        self._exact: dict[str, str] = {}
        self._folded: dict[str, str] = {}
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        terms = terms or {}
        if len(terms) > MAX_TERMS:
            raise _invalid(f"a glossary of {len(terms)} terms is too long; at most {MAX_TERMS} are accepted")
        for source, target in terms.items():
            term = source.strip()
            if not term or not target.strip():
                raise _invalid(f"glossary term {source[:40]!r}: {target[:40]!r} is empty on one side")
            if len(term) > MAX_TERM_CHARACTERS or len(target) > MAX_TERM_CHARACTERS:
                raise _invalid(f"glossary term {term[:40]!r}… is longer than {MAX_TERM_CHARACTERS} characters")
            self._exact[term] = target
            self._folded.setdefault(_fold(term), target)
            lengths[_fold(term)[:2]].add(len(term))
        self._lengths = {start: tuple(sorted(found, reverse=True)) for start, found in lengths.items()}

    def protect(self, text: str) -> Protected:
        """Replace the terms, addresses and names of values by placeholders."""
        result = self._find(text)
        if not result:
            return Protected(text, ())
        placeholders = Placeholders(text)
        pieces: list[str] = []
        position = 0
        for index, (start, end, _) in enumerate(result):
            between = text[position:start] or ("Z" if index else "")  # no two placeholders touch
            pieces += (text[position:start], placeholders.insert(index, between, text[end : end + 1]))
            position = end
        protected = "".join((*pieces, text[position:]))
        return Protected(protected, tuple(target for _, _, target in result), placeholders)

    def _find(self, text: str) -> list[tuple[int, int, str]]:
        """Return start, end and target of each term and address in order."""
        addresses = [(match.start(), match.end(), match.group()) for match in VERBATIM.finditer(text)]
        if not self._exact:
            return addresses
        folded = _fold(text)
        result: list[tuple[int, int, str]] = []
        position = 0
        for start, end, address in [*addresses, (len(text), len(text), "")]:
            while position < start:
                term = self._at(text, folded, position, start)
                if term is None:
                    position += 1
                else:
                    result.append((position, *term))
                    position = term[0]
            if end > start:
                result.append((start, end, address))
            position = max(position, end)
        return result

    def _at(self, text: str, folded: str, position: int, stop: int) -> tuple[int, str] | None:
        """Return the end and the target of the longest term at `position`, or None."""
        lengths = (*self._lengths.get(folded[position : position + 2], ()), *self._lengths.get(folded[position], ()))
        if not lengths or not _may_begin(text, position):
            return None
        for length in lengths:
            end = position + length
            target = self._exact.get(text[position:end]) or self._folded.get(folded[position:end])
            if target is not None and end <= stop and _may_end(text, end):
                return end, target
        return None


def _fold(text: str) -> str:
    """Return `text` in lower case, character by character, so that offsets stay."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(folded if len(folded := character.lower()) == 1 else character for character in text)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _may_begin(text: str, position: int) -> bool:
    if position == 0:
        return True
    before, first = text[position - 1], text[position]
    if unicodedata.category(first)[0] == "M":
        return False  # a vowel sign belongs to the letter before it
    return not (_is_word(before) and _is_word(first)) or bool({script_of(before), script_of(first)} & _UNSPACED)


def _may_end(text: str, end: int) -> bool:
    if end == len(text):
        return True
    last, after = text[end - 1], text[end]
    if unicodedata.category(after)[0] == "M":
        return False
    if not (_is_word(last) and _is_word(after)):
        return True
    return bool({script_of(last), script_of(after)} & _UNSPACED) or script_of(last) in _SUFFIXED
