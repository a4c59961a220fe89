"""Normalization of characters that keeps the length of the text, and so all offsets."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

# Marks that belong to the letter before them: accents, Hebrew and Arabic points, Indic and South-East Asian vowels.
COMBINING: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u06d6-\u06ed\u0900-\u0963\u0971-\u0dff"
    "\u0e00-\u109f\u1780-\u17ff\u200c\u200d"
)
"""Ranges for a character class of a regular expression."""


_QUOTES = {"‘": "'", "’": "'", "‚": "'", "‛": "'", "`": "'", "´": "'", "ʼ": "'", "＇": "'", "“": '"', "”": '"',
           "„": '"', "‟": '"', "«": '"', "»": '"', "‐": "-", "‑": "-", "‒": "–", "―": "—", "⁓": "—", "。": ".",
           "、": ",", "،": ",", "؛": ";", "؟": "?", "।": ".", "॥": ".", "۔": ".", "¡": " ", "¿": " ", "\u00a0": " ",
           "\u2028": "\n", "\u2029": "\n", "\u0085": "\n", "⁄": "/", "∕": "/", "·": " ", "•": " "}  # fmt: skip


@lru_cache(maxsize=4096)
def _canonical_character(character: str) -> str:
    replacement = _QUOTES.get(character)
    if replacement is not None:
        return replacement
    category = unicodedata.category(character)
    if category == "No":  # superscripts and fractions mean more than their digits
        return character
    if category in ("Zs", "Cc", "Cs", "Co", "Cn"):
        return "\n" if character == "\n" else " "
    folded = unicodedata.normalize("NFKC", character)
    return folded if len(folded) == 1 and folded.isalnum() >= character.isalnum() else character


def canonical(text: str) -> str:
    """Return `text` with plain quotes, hyphens, spaces and full-width forms folded, character for character."""
    if text.isascii():
        return text.translate(_ASCII_CONTROLS)
    return "".join(map(_canonical_character, text))


_ASCII_CONTROLS = dict.fromkeys((*range(9), 9, 11, 12, 13, *range(14, 32), 127), " ") | {96: "'"}
