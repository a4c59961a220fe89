"""Scripts of a text, and the language if the script alone decides it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import Final

from app.text.languages import FILE as LANGUAGES_FILE
from app.text.word_sets import read_rows

_ROWS: Final = read_rows(LANGUAGES_FILE)
_BLOCKS: Final = [(int(first, 16), int(last, 16), script) for first, last, script in _ROWS["block"]]
_STARTS: Final = [first for first, _, _ in _BLOCKS]

# Latin letters that a character stands for, about: it writes a syllable or a word.
_WEIGHTS: Final = {"Hani": 3, "Kana": 2, "Hang": 2, "Ethi": 2}

_ONE_LANGUAGE: Final = dict(_ROWS["language"])
_SPECIFIC: Final = [(script, language, re.compile(pattern)) for script, language, pattern in _ROWS["specific"]]


def _characters(name: str) -> frozenset[str]:
    return frozenset("".join(characters for each, characters in _ROWS["characters"] if each == name))


_SIMPLIFIED: Final = _characters("simplified") - _characters("traditional")
_TRADITIONAL: Final = _characters("traditional") - _characters("simplified")
_JAPANESE: Final = _characters("japanese")
_CANTONESE: Final = _characters("cantonese")


def script_of(character: str) -> str:
    """Return the ISO 15924 script whose block the character is in (Hani for Chinese, Kana for both kana), or ""."""
    block = bisect_right(_STARTS, ord(character)) - 1
    return _BLOCKS[block][2] if block >= 0 and ord(character) <= _BLOCKS[block][1] else ""


def count_scripts(text: str) -> Counter[str]:
    """Return the number of letters in each script. A Chinese character counts as three."""
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        if not (character.isalpha() or "\u0900" <= character <= "\u109f"):  # vowel signs are letters here
            continue
        script = script_of(character)
        if script:
            counts[script] += times * _WEIGHTS.get(script, 1)
    return counts


def language_by_script(text: str, counts: Counter[str]) -> tuple[str, float] | None:
    """Return the language that the main script decides and its share of the letters, or None.

    The share is in [0, 1]. Latin, Cyrillic, Arabic and Devanagari decide nothing by themselves.
    """
    total = counts.total()
    if not total:
        return None
    script, amount = counts.most_common(1)[0]
    if counts["Hani"] or counts["Kana"]:
        east = counts["Hani"] + counts["Kana"]
        if east >= amount and east > counts["Hang"]:
            return _east_asian(text, counts), east / total
    for needed, language, pattern in _SPECIFIC:
        if needed == script and pattern.search(text):
            return language, amount / total
    language = _ONE_LANGUAGE.get(script, "")
    return (language, amount / total) if language else None


def _east_asian(text: str, counts: Counter[str]) -> str:
    # Chinese text may hold a stray kana (の on a sign). Japanese text holds many.
    if counts["Kana"] * 10 > counts["Hani"]:
        return "jpn_Jpan"
    characters = Counter(text)
    if any(character in _CANTONESE for character in characters):
        return "yue_Hant"

    def total(of: frozenset[str]) -> int:
        return sum(times for character, times in characters.items() if character in of)

    simplified, traditional, japanese = total(_SIMPLIFIED), total(_TRADITIONAL), total(_JAPANESE)
    if japanese > simplified and japanese > traditional:
        return "jpn_Jpan"
    return "zho_Hant" if traditional > simplified else "zho_Hans"
