"""Stems and sounds of the endings -s, -ed and -ing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

# Vowels after which American /t/ becomes a flap before another vowel.
_FLAPPING: Final = frozenset("AIOWYiuæɑəɛɪɹʊʌ")


def stem_of_s(word: str, is_known: Callable[[str], bool]) -> str | None:
    """Return the known word of which `word` is the form in -s, or None."""
    if len(word) < 3 or not word.endswith("s"):
        return None
    if not word.endswith("ss") and is_known(word[:-1]):
        return word[:-1]
    sibilant = len(word) > 4 and word.endswith("es") and not word.endswith("ies")
    if (word.endswith("'s") or sibilant) and is_known(word[:-2]):
        return word[:-2]
    if len(word) > 4 and word.endswith("ies") and is_known(word[:-3] + "y"):
        return word[:-3] + "y"
    return None


def stem_of_ed(word: str, is_known: Callable[[str], bool]) -> str | None:
    """Return the known word of which `word` is the form in -ed, or None."""
    if len(word) < 4 or not word.endswith("d"):
        return None
    if not word.endswith("dd") and is_known(word[:-1]):
        return word[:-1]
    if len(word) > 4 and word.endswith("ed") and not word.endswith("eed"):
        if is_known(word[:-2]):
            return word[:-2]
        if word.endswith("ied") and is_known(word[:-3] + "y"):
            return word[:-3] + "y"
    return None


def stem_of_ing(word: str, is_known: Callable[[str], bool]) -> str | None:
    """Return the known word of which `word` is the form in -ing, or None."""
    if len(word) < 5 or not word.endswith("ing"):
        return None
    if len(word) > 5 and is_known(word[:-3]):
        return word[:-3]
    if is_known(word[:-3] + "e"):
        return word[:-3] + "e"
    if len(word) > 5 and re.search(r"([bcdgklmnprstvxz])\1ing$|cking$", word) and is_known(word[:-4]):
        return word[:-4]
    return None


def add_s(stem: str | None, *, british: bool) -> str | None:
    """Return the phonemes of a stem with the plural, possessive or third-person -s."""
    if not stem:
        return None
    if stem[-1] in "ptkfθT":
        return stem + "s"
    if stem[-1] in "szʃʒʧʤ":
        return stem + ("ɪz" if british else "ᵻz")
    return stem + "z"


def add_ed(stem: str | None, *, british: bool) -> str | None:
    """Return the phonemes of a stem with the past -ed."""
    if not stem:
        return None
    if stem[-1] in "pkfθʃsʧ":
        return stem + "t"
    if stem[-1] == "d":
        return stem + ("ɪd" if british else "ᵻd")
    if stem[-1] != "t":
        return stem + "d"
    if british or len(stem) < 2:
        return stem + "ɪd"
    return stem[:-1] + "ɾᵻd" if stem[-2] in _FLAPPING else stem + "ᵻd"


def add_ing(stem: str | None, *, british: bool) -> str | None:
    """Return the phonemes of a stem with -ing; None if the sound of the stem changes."""
    if not stem:
        return None
    if british:
        # An -r that comes back between vowels is not in the entry, so the caller falls back to espeak-ng.
        return None if stem[-1] in "əː" else stem + "ɪŋ"
    if len(stem) > 1 and stem[-1] == "t" and stem[-2] in _FLAPPING:
        return stem[:-1] + "ɾɪŋ"
    return stem + "ɪŋ"
