"""Phoneme characters of Kokoro's published vocabulary, and replacements for characters outside it."""

from __future__ import annotations

PUNCTUATION = frozenset(";:,.!?—…")
"""Marks that are spoken as pauses or intonation."""

KOKORO_SYMBOLS = frozenset(
    ';:,.!?—…"()“” \u0303ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyz'
    "ɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)
"""The 114 characters that have an id in the checkpoint's `config.json`."""

STRESS = frozenset("ˈˌ")

# A near sound for characters that a model may lack.
_NEAREST = {"g": "ɡ", "ɝ": "ɜɹ", "ʱ": "ʰ", "ɫ": "l", "ɬ": "l", "ʉ": "u", "ɘ": "ə", "ɵ": "ə", "ʏ": "y", "ʍ": "w",
            "ɱ": "m", "ħ": "h", "ɦ": "h", "ʕ": "ʔ", "ʀ": "ʁ", "ɭ": "l", "ɺ": "ɾ", "ʟ": "l", "ɶ": "œ", "ɞ": "ɜ",
            "ɐ": "ə", "ᵻ": "ɪ", "ᵊ": "ə", "ɾ": "T", "ʔ": "t", "r": "ɹ", "ɚ": "əɹ", "ʑ": "ʥ", "ʐ": "ʒ"}  # fmt: skip


def restrict(phonemes: str, symbols: frozenset[str]) -> str:
    """Return `phonemes` with only characters of `symbols`. Others are replaced by a near sound, or dropped."""
    if symbols.issuperset(phonemes):
        return phonemes
    kept: list[str] = []
    for character in phonemes:
        if character in symbols:
            kept.append(character)
        else:
            kept.extend(near for near in _NEAREST.get(character, "") if near in symbols)
    return "".join(kept)
