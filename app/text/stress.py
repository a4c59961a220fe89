"""Stress of a word in Kokoro's phonemes, by misaki's scale."""

from __future__ import annotations

from typing import Final

PRIMARY: Final = "ˈ"
SECONDARY: Final = "ˌ"
VOWELS: Final = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")


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
