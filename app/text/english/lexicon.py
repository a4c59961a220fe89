"""Pronunciations of English words from misaki's published lexicons, with its rules of stress and inflection.

The lexicons are JSON files of the `misaki` distribution: `gold` (checked by hand) before `silver`. Only the files
are read; the package is never imported, because its English module needs spaCy. The phoneme alphabet is described
in misaki's EN_PHONES document.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from app.errors import UnavailableError
from app.text.english.inflection import add_ed, add_ing, add_s, stem_of_ed, stem_of_ing, stem_of_s
from app.text.english.word_table import WordTable
from app.text.pieces import PRIMARY, SECONDARY, restress

# The article "ɐ" is neither here nor in VOWELS, as in misaki's rules: "to" in "to a man" depends on "man".
CONSONANTS: Final = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")

# Stress that a word gains from its capitals: a capital first letter, all capitals.
_CAPITALIZED: Final = 0.5
_SHOUTED: Final = 2.0

Entry = str | Mapping[str, str | None]
_CHOICES: Final = "{"  # begins the JSON of pronunciations by tag; no phonemes do
_KEPT: Final = 4096  # entries that were looked up last


@dataclass(frozen=True, slots=True)
class Following:
    """Sound after a word: `vowel` is None at a pause or the end; `to` marks the word "to"."""

    vowel: bool | None = None
    to: bool = False


NOTHING_FOLLOWS: Final = Following()


@dataclass(frozen=True, slots=True)
class _Use:
    """One use of a word in a sentence."""

    word: str
    tag: str | None
    stress: float | None
    following: Following

    @property
    def is_noun(self) -> bool:
        """Return whether the tag is that of a noun."""
        return self.tag is not None and self.tag.startswith("NN")


def parent_tag(tag: str | None) -> str | None:
    """Return the coarse class (VERB, NOUN, ADV, ADJ) of a Penn Treebank tag, or the tag itself."""
    if tag is None:
        return None
    for prefix, parent in (("VB", "VERB"), ("NN", "NOUN"), ("RB", "ADV"), ("JJ", "ADJ")):
        if tag.startswith(prefix):
            return parent
    return tag


class EnglishLexicon:
    """Words of one accent. Reading is thread-safe. Loading takes about 0.2 s."""

    def __init__(self, *, british: bool) -> None:
        accent = "gb" if british else "us"
        self.british = british
        self._gold, self._silver = (
            lru_cache(_KEPT)(partial(_entry, _read_lexicon(f"{accent}_{name}.json"))) for name in ("gold", "silver")
        )

    def gold(self, word: str) -> Entry | None:
        """Return the checked entry of a word, as written or with its first letter in the other case."""
        return _find(self._gold, word)

    def silver(self, word: str) -> Entry | None:
        """Return the unchecked entry of a word."""
        return _find(self._silver, word)

    def has_choice(self, word: str) -> bool:
        """Return whether the pronunciation of a word (or of its stem) depends on its part of speech."""
        forms = [word]
        if word.endswith("ed"):
            forms += [word[:-1], word[:-2]]
        elif word.endswith("ing"):
            forms += [word[:-3], word[:-3] + "e"]
        return any(isinstance(self.gold(form), Mapping) for form in forms)

    def is_known(self, word: str) -> bool:
        """Return whether `look_up` can pronounce the word: it is listed, one letter, or an acronym."""
        if self.gold(word) is not None or self.silver(word) is not None:
            return True
        if not word.isalpha() or not word.isascii():
            return False
        return word[1:] == word[1:].upper()

    def spell(self, letters: str) -> str | None:
        """Return the names of the letters, the last one stressed, or None if one has no name."""
        names: list[str] = []
        for letter in letters:
            if not letter.isalpha():
                continue
            name = self._gold(letter.upper())
            if not isinstance(name, str):
                return None
            names.append(name)
        head, mark, tail = restress("".join(names), 0).rpartition(SECONDARY)
        return f"{head}{PRIMARY}{tail}" if mark else tail

    def look_up(self, word: str, tag: str | None, stress: float | None, following: Following) -> str | None:
        """Return the listed pronunciation of a word, or its letters if it is an acronym; None if neither."""
        proper = False
        if word == word.upper() and self.gold(word) is None:
            word = word.lower()
            proper = tag == "NNP"
        entry = self.gold(word)
        if entry is None and not proper:
            entry = self.silver(word)
        if isinstance(entry, Mapping):
            entry = _choose(entry, tag, following)
        if entry is None or (proper and PRIMARY not in entry):
            spelled = self.spell(word)
            if spelled is not None:
                return spelled
        return None if entry is None else restress(entry, stress)

    def pronounce(
        self, word: str, tag: str | None = None, following: Following = NOTHING_FOLLOWS, *, stress: float | None = None
    ) -> str | None:
        """Return the phonemes of a word (letters, apostrophes and hyphens), or None if it is not in the lexicon.

        `stress` overrides the stress that capitals give.
        """
        if stress is None and word != word.lower():
            stress = _SHOUTED if word == word.upper() else _CAPITALIZED
        lower = word.lower()
        if (rule := _FUNCTION_WORDS.get(lower)) is not None:
            special = rule(self, _Use(word, tag, stress, following))
            if special is not None:
                return special
        if self._reads_as_lower_case(word, lower, tag, stress, following):
            word = lower
        if self.is_known(word):
            return self.look_up(word, tag, stress, following)
        if word.endswith("s'") and self.is_known(word[:-2] + "'s"):
            return self.look_up(word[:-2] + "'s", tag, stress, following)
        if word.endswith("'") and len(word) > 2:
            return self.pronounce(word[:-1], tag, following, stress=stress)
        return self._inflected(word, tag, stress, following)

    def _reads_as_lower_case(
        self, word: str, lower: str, tag: str | None, stress: float | None, following: Following
    ) -> bool:
        if len(word) < 2 or word == lower or not word.replace("'", "").isalpha():
            return False
        if tag == "NNP" and len(word) <= 7:
            return False
        if self.gold(word) is not None or self.silver(word) is not None:
            return False
        if word != word.upper() and word[1:] != lower[1:]:
            return False
        if self.gold(lower) is not None or self.silver(lower) is not None:
            return True
        return self._inflected(lower, tag, stress, following) is not None

    def _am(self, use: _Use) -> str | None:
        if use.is_noun:
            return self.spell(use.word)
        stressed = use.stress is not None and use.stress > 0
        if use.following.vowel is None or use.word != "am" or stressed:
            return self._plain("am")
        return "ɐm"

    def _to(self, use: _Use) -> str | None:
        if use.word == "TO" and use.tag not in ("TO", "IN"):
            return None
        if use.following.vowel is None:
            return self._plain("to")
        return "tʊ" if use.following.vowel else "tə"

    def _used(self, use: _Use) -> str | None:
        entry = self.gold("used")
        if not isinstance(entry, Mapping):
            return None
        return entry.get("VBD" if use.tag in ("VBD", "JJ") and use.following.to else "DEFAULT")

    def _plain(self, word: str) -> str | None:
        entry = self.gold(word)
        return entry if isinstance(entry, str) else None

    def _inflected(self, word: str, tag: str | None, stress: float | None, following: Following) -> str | None:
        """Return the phonemes of a listed word with -s, -ed or -ing, or None."""
        stem = stem_of_s(word, self.is_known)
        if stem is not None:
            return add_s(self.look_up(stem, tag, stress, following), british=self.british)
        stem = stem_of_ed(word, self.is_known)
        if stem is not None:
            return add_ed(self.look_up(stem, tag, stress, following), british=self.british)
        stem = stem_of_ing(word, self.is_known)
        if stem is not None:
            stress = _CAPITALIZED if stress is None else stress
            return add_ing(self.look_up(stem, tag, stress, following), british=self.british)
        return None


_FUNCTION_WORDS: Final[dict[str, Callable[[EnglishLexicon, _Use], str | None]]] = {
    "a": lambda lexicon, use: "ɐ" if use.tag == "DT" else "ˈA",
    "am": EnglishLexicon._am,
    "an": lambda lexicon, use: lexicon.spell(use.word) if use.word == "AN" and use.is_noun else "ɐn",
    "i": lambda lexicon, use: SECONDARY + "I" if use.word == "I" and use.tag == "PRP" else None,
    "by": lambda lexicon, use: "bˈI" if parent_tag(use.tag) == "ADV" else None,
    "to": EnglishLexicon._to,
    "in": lambda lexicon, use: (
        None
        if use.word == "IN" and use.tag == "NNP"
        else (PRIMARY if use.following.vowel is None or use.tag != "IN" else "") + "ɪn"
    ),
    "the": lambda lexicon, use: (
        None if use.word == "THE" and use.tag != "DT" else "ði" if use.following.vowel else "ðə"
    ),
    "used": EnglishLexicon._used,
}
"""Rules of words whose sound depends on their neighbors. A rule returns phonemes, or None if the lexicon decides."""


def _entry(words: WordTable, word: str) -> Entry | None:
    text = words.get(word)
    if text is None or not text.startswith(_CHOICES):
        return text
    entry: Mapping[str, str | None] = json.loads(text)
    return entry


def _find(listed: Callable[[str], Entry | None], word: str) -> Entry | None:
    entry = listed(word)
    if entry is not None or len(word) < 2:
        return entry
    lower = word.lower()
    if word == lower:
        return listed(word.capitalize())
    return listed(lower) if word == lower.capitalize() else None


def _choose(entry: Mapping[str, str | None], tag: str | None, following: Following) -> str | None:
    if following.vowel is None and "None" in entry:
        return entry["None"]
    for key in (tag, parent_tag(tag)):
        if key is not None and key in entry:
            return entry[key]
    return entry["DEFAULT"]


def _read_lexicon(name: str) -> WordTable:
    spec = importlib.util.find_spec("misaki")  # finds a top-level package without running it
    if spec is None or not spec.submodule_search_locations:
        raise UnavailableError("English needs the lexicons of the package 'misaki', which is not installed")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    with path.open(encoding="utf-8") as file:
        entries: dict[str, Entry] = json.load(file)
    return WordTable({word: entry if isinstance(entry, str) else json.dumps(entry) for word, entry in entries.items()})


@lru_cache(maxsize=2)
def get_lexicon(*, british: bool) -> EnglishLexicon:
    """Return the lexicon of an accent, loading it once."""
    return EnglishLexicon(british=british)
