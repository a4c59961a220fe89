"""Pronunciations of English words from misaki's published lexicons, with its rules of stress and inflection.

The lexicons are JSON files of the `misaki` distribution: `gold` (checked by hand) before `silver`. Only the files
are read; the package is never imported, because its English module needs spaCy. The phoneme alphabet is described
in misaki's EN_PHONES document.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from app.text.errors import PhonemizerUnavailableError

PRIMARY: Final = "ˈ"
SECONDARY: Final = "ˌ"
# The article "ɐ" counts as neither: "to a man" looks through it, as in the lexicon's own rules.
VOWELS: Final = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
CONSONANTS: Final = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")
# Vowels after which American /t/ becomes a flap before another vowel.
_FLAPPING: Final = frozenset("AIOWYiuæɑəɛɪɹʊʌ")

# Stress that a word gains from its capitals: a capital first letter, all capitals.
CAPITALIZED: Final = 0.5
SHOUTED: Final = 2.0

Entry = str | Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Following:
    """What comes after a word: whether a vowel (None at a pause or the end), and whether the word "to"."""

    vowel: bool | None = None
    to: bool = False


NOTHING_FOLLOWS: Final = Following()


def restress(phonemes: str, stress: float | None) -> str:
    """Return a word with its stress raised (> 0) or lowered (< 0) by misaki's scale, -2 (none) to 2 (primary)."""
    if stress is None or not phonemes:
        return phonemes
    if stress < -1:
        return phonemes.replace(PRIMARY, "").replace(SECONDARY, "")
    has_primary = PRIMARY in phonemes
    if stress == -1 or (stress in (0, -0.5) and has_primary):
        return phonemes.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)
    if not has_primary and SECONDARY not in phonemes:
        if stress < 0:
            return phonemes
        return _stress_first_vowel(phonemes, PRIMARY if stress > 1 else SECONDARY)
    if stress >= 1 and not has_primary:
        return phonemes.replace(SECONDARY, PRIMARY)
    return phonemes


def _stress_first_vowel(phonemes: str, mark: str) -> str:
    for i, character in enumerate(phonemes):
        if character in VOWELS:
            return phonemes[:i] + mark + phonemes[i:]
    return phonemes


def parent_tag(tag: str | None) -> str | None:
    """Return the coarse class (VERB, NOUN, ADV, ADJ) of a Penn Treebank tag, or the tag itself."""
    if tag is None:
        return None
    for prefix, parent in (("VB", "VERB"), ("NN", "NOUN"), ("RB", "ADV"), ("JJ", "ADJ")):
        if tag.startswith(prefix):
            return parent
    return tag


class Lexicon:
    """The words of one accent. Reading is thread-safe; building takes about 0.2 s."""

    def __init__(self, *, british: bool) -> None:
        accent = "gb" if british else "us"
        self.british = british
        self._gold: dict[str, Entry] = _read_lexicon(f"{accent}_gold.json")
        self._silver: dict[str, Entry] = _read_lexicon(f"{accent}_silver.json")

    def gold(self, word: str) -> Entry | None:
        """Return the checked entry of a word, spelled so or with its first letter in the other case."""
        return _find(self._gold, word)

    def silver(self, word: str) -> Entry | None:
        """Return the unchecked entry of a word."""
        return _find(self._silver, word)

    def has_choice(self, word: str) -> bool:
        """Whether the pronunciation of a word (or of its stem) depends on its part of speech."""
        forms = [word]
        if word.endswith("ed"):
            forms += [word[:-1], word[:-2]]
        elif word.endswith("ing"):
            forms += [word[:-3], word[:-3] + "e"]
        return any(isinstance(self.gold(form), Mapping) for form in forms)

    def is_known(self, word: str) -> bool:
        """Whether `look_up` can pronounce the word: it is listed, one letter, or an acronym."""
        if self.gold(word) is not None or self.silver(word) is not None:
            return True
        if not word.isalpha() or not word.isascii():
            return False
        return word[1:] == word[1:].upper()

    def spell(self, letters: str) -> str | None:
        """Return the letters said one by one, the last one stressed; None if one has no name."""
        names: list[str] = []
        for letter in letters:
            if not letter.isalpha():
                continue
            name = self._gold.get(letter.upper())
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
            stress = SHOUTED if word == word.upper() else CAPITALIZED
        special = self._function_word(word, tag, stress, following)
        if special is not None:
            return special
        lower = word.lower()
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

    def _function_word(self, word: str, tag: str | None, stress: float | None, following: Following) -> str | None:
        """The words whose sound depends on their neighbors."""
        titled = word.capitalize()
        if word in ("a", "A"):
            return "ɐ" if tag == "DT" else "ˈA"
        if titled == "Am":
            if tag is not None and tag.startswith("NN"):
                return self.spell(word)
            if following.vowel is None or word != "am" or (stress and stress > 0):
                return self._plain("am")
            return "ɐm"
        if titled == "An":
            return self.spell(word) if word == "AN" and tag is not None and tag.startswith("NN") else "ɐn"
        if word == "I" and tag == "PRP":
            return SECONDARY + "I"
        if titled == "By" and parent_tag(tag) == "ADV":
            return "bˈI"
        if word in ("to", "To") or (word == "TO" and tag in ("TO", "IN")):
            return self._plain("to") if following.vowel is None else ("tʊ" if following.vowel else "tə")
        if word in ("in", "In") or (word == "IN" and tag != "NNP"):
            return (PRIMARY if following.vowel is None or tag != "IN" else "") + "ɪn"
        if word in ("the", "The") or (word == "THE" and tag == "DT"):
            return "ði" if following.vowel else "ðə"
        if titled == "Used":
            entry = self.gold("used")
            if isinstance(entry, Mapping):
                return entry.get("VBD" if tag in ("VBD", "JJ") and following.to else "DEFAULT")
        return None

    def _plain(self, word: str) -> str | None:
        entry = self.gold(word)
        return entry if isinstance(entry, str) else None

    def _inflected(self, word: str, tag: str | None, stress: float | None, following: Following) -> str | None:
        """The forms in -s, -ed and -ing of listed words."""
        stem = self._stem_of_s(word)
        if stem is not None:
            return self.add_s(self.look_up(stem, tag, stress, following))
        stem = self._stem_of_ed(word)
        if stem is not None:
            return self.add_ed(self.look_up(stem, tag, stress, following))
        stem = self._stem_of_ing(word)
        if stem is not None:
            return self._add_ing(self.look_up(stem, tag, CAPITALIZED if stress is None else stress, following))
        return None

    def _stem_of_s(self, word: str) -> str | None:
        if len(word) < 3 or not word.endswith("s"):
            return None
        if not word.endswith("ss") and self.is_known(word[:-1]):
            return word[:-1]
        sibilant = len(word) > 4 and word.endswith("es") and not word.endswith("ies")
        if (word.endswith("'s") or sibilant) and self.is_known(word[:-2]):
            return word[:-2]
        if len(word) > 4 and word.endswith("ies") and self.is_known(word[:-3] + "y"):
            return word[:-3] + "y"
        return None

    def _stem_of_ed(self, word: str) -> str | None:
        if len(word) < 4 or not word.endswith("d"):
            return None
        if not word.endswith("dd") and self.is_known(word[:-1]):
            return word[:-1]
        if len(word) > 4 and word.endswith("ed") and not word.endswith("eed"):
            if self.is_known(word[:-2]):
                return word[:-2]
            if word.endswith("ied") and self.is_known(word[:-3] + "y"):
                return word[:-3] + "y"
        return None

    def _stem_of_ing(self, word: str) -> str | None:
        if len(word) < 5 or not word.endswith("ing"):
            return None
        if len(word) > 5 and self.is_known(word[:-3]):
            return word[:-3]
        if self.is_known(word[:-3] + "e"):
            return word[:-3] + "e"
        if len(word) > 5 and re.search(r"([bcdgklmnprstvxz])\1ing$|cking$", word) and self.is_known(word[:-4]):
            return word[:-4]
        return None

    def add_s(self, stem: str | None) -> str | None:
        """Return the phonemes of a stem with the plural, possessive or third-person -s."""
        if not stem:
            return None
        if stem[-1] in "ptkfθT":
            return stem + "s"
        if stem[-1] in "szʃʒʧʤ":
            return stem + ("ɪz" if self.british else "ᵻz")
        return stem + "z"

    def add_ed(self, stem: str | None) -> str | None:
        """Return the phonemes of a stem with the past -ed."""
        if not stem:
            return None
        if stem[-1] in "pkfθʃsʧ":
            return stem + "t"
        if stem[-1] == "d":
            return stem + ("ɪd" if self.british else "ᵻd")
        if stem[-1] != "t":
            return stem + "d"
        if self.british or len(stem) < 2:
            return stem + "ɪd"
        return stem[:-1] + "ɾᵻd" if stem[-2] in _FLAPPING else stem + "ᵻd"

    def _add_ing(self, stem: str | None) -> str | None:
        if not stem:
            return None
        if self.british:
            # An -r that comes back between vowels is not in the entry, so the caller falls back to espeak-ng.
            return None if stem[-1] in "əː" else stem + "ɪŋ"
        if len(stem) > 1 and stem[-1] == "t" and stem[-2] in _FLAPPING:
            return stem[:-1] + "ɾɪŋ"
        return stem + "ɪŋ"


def _find(entries: dict[str, Entry], word: str) -> Entry | None:
    entry = entries.get(word)
    if entry is not None or len(word) < 2:
        return entry
    lower = word.lower()
    if word == lower:
        return entries.get(word.capitalize())
    return entries.get(lower) if word == lower.capitalize() else None


def _choose(entry: Mapping[str, str | None], tag: str | None, following: Following) -> str | None:
    if following.vowel is None and "None" in entry:
        return entry["None"]
    for key in (tag, parent_tag(tag)):
        if key is not None and key in entry:
            return entry[key]
    return entry["DEFAULT"]


def _read_lexicon(name: str) -> dict[str, Entry]:
    spec = importlib.util.find_spec("misaki")  # finds a top-level package without running it
    if spec is None or not spec.submodule_search_locations:
        raise PhonemizerUnavailableError("English needs the lexicons of the package 'misaki', which is not installed")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    with path.open(encoding="utf-8") as file:
        entries: dict[str, Entry] = json.load(file)
    return entries


@lru_cache(maxsize=2)
def get_lexicon(*, british: bool) -> Lexicon:
    """Return the lexicon of an accent, loading it once."""
    return Lexicon(british=british)
