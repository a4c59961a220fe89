"""Words of other scripts inside English: read in their own language, with the sounds of English.

Japanese and Chinese are read by their dictionaries if the extras `ja` and `zh` are installed. Without them espeak-ng
reads kana in Japanese, and all Chinese characters in Mandarin.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from app.text.espeak import get_espeak
from app.text.pieces import KOKORO_SYMBOLS, PieceKind, Pronouncer, restrict
from app.text.scripts import script_of
from app.text.sounds import ROWS, to_kokoro

_VOICES: Final = dict(ROWS["voice"])
_LETTERS: Final = [(re.compile(letters), voice) for letters, voice in ROWS["letters"]]
_MARKS: Final = re.compile("[\u0300-\u0360\u0362-\u036f0-9]")


def runs(text: str) -> list[str]:
    """Return a word cut where Latin letters and others meet."""
    cut: list[str] = []
    latin = None
    for character in text:
        script = script_of(character)
        if (script and latin not in (None, script == "Latn")) or not cut:
            cut.append("")
        latin = script == "Latn" if script else latin
        cut[-1] += character
    return cut


def pronounce_other_script(text: str, *, native: Callable[[str], Pronouncer | None] | None = None) -> str:
    """Return the phonemes of a word that is not in Latin letters, or "" if no language reads it.

    `native` returns the pronouncer of "ja" or "zh", or None; without it espeak-ng reads these too.
    """
    text = unicodedata.normalize("NFKC", text)
    scripts = {script_of(character) for character in text} - {""}
    if scripts <= {"Latn"}:
        return ""
    pronouncer = native("ja" if "Kana" in scripts else "zh") if native and scripts & {"Kana", "Hani"} else None
    if pronouncer is not None:
        pieces = pronouncer.normalize(text, 0)
        pronouncer.pronounce(pieces)
        spoken = " ".join(piece.phonemes for piece in pieces if piece.kind is PieceKind.WORD and piece.phonemes.strip())
        if spoken:
            return spoken
    return " ".join(filter(None, (_by_espeak(run, voice) for voice, run in _voiced_runs(text))))


def _voiced_runs(text: str) -> list[tuple[str, str]]:
    """Cut the text into runs of one voice. Marks and signs go with the letters before them."""
    own = next((voice for pattern, voice in _LETTERS if pattern.search(text)), "")
    cut: list[tuple[str, str]] = []
    for character in text:
        script = script_of(character)
        voice = (script in ("Cyrl", "Arab") and own) or _VOICES.get(script, "")
        if cut and (not character.isalpha() or character == "ー" or voice == cut[-1][0]):
            cut[-1] = (cut[-1][0], cut[-1][1] + character)
        else:
            cut.append((voice, character))
    return cut


def _by_espeak(text: str, voice: str) -> str:
    espeak = get_espeak(voice) if voice else None
    if espeak is None:
        return ""
    ipa = _MARKS.sub("", unicodedata.normalize("NFD", espeak.phonemes(text)))
    return " ".join(restrict(to_kokoro(ipa, "foreign"), KOKORO_SYMBOLS).split())
