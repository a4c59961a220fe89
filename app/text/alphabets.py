"""Phonetic alphabets of markup: IPA, X-SAMPA and ARPABET, to the phoneme characters of the models.

The target is Kokoro's alphabet (misaki's EN_PHONES document). X-SAMPA is J. C. Wells' table of 1995; ARPABET is that of
the CMU Pronouncing Dictionary, one symbol per sound with 0, 1 or 2 for the stress of a vowel.
"""

from __future__ import annotations

import re
from typing import Final

from app.errors import MarkupError
from app.text.pieces import KOKORO_SYMBOLS
from app.text.sounds import ROWS, sounds

MAX_PHONEMES: Final = 200
"""Most phoneme characters of one pronunciation."""

IPA: Final = "ipa"
X_SAMPA: Final = "x-sampa"
ARPABET: Final = "cmu-arpabet"
ALPHABETS: Final = {
    IPA: IPA, X_SAMPA: X_SAMPA, "xsampa": X_SAMPA, "sampa": X_SAMPA, "x-amazon-xsampa": X_SAMPA, ARPABET: ARPABET,
    "arpabet": ARPABET, "cmu": ARPABET, "x-cmu-arpabet": ARPABET,
}  # fmt: skip
"""Accepted names of alphabets, in small letters, and the alphabet that each means."""

_ENGLISH_ONLY: Final = frozenset(("ɾ", "ʔ"))
_X_SAMPA: Final = {written: "" if said == "-" else said for written, said in ROWS["x-sampa"]}
_X_SAMPA_FINDER: Final = re.compile("|".join(map(re.escape, sorted(_X_SAMPA, key=len, reverse=True))))
_ARPABET: Final = dict(sounds("arpabet"))
_UNSTRESSED: Final = dict(sounds("unstressed"))
_STRESS: Final = {"0": "", "1": "ˈ", "2": "ˌ", "": ""}
_SOUND: Final = re.compile(r"([A-Z]{1,3})([012]?)")


def to_symbols(phonemes: str, word: str, *, alphabet: str = IPA, english: bool = True) -> str:
    """Return the models' phoneme characters for a pronunciation.

    Args:
        phonemes: The pronunciation as it was written.
        word: The word that has it, for messages.
        alphabet: One of the names of `ALPHABETS`, in any case.
        english: Whether the word is English, whose tap and glottal stop have characters of their own.

    Raises:
        MarkupError: An alphabet or a phoneme is unknown, or there are none, or more than `MAX_PHONEMES`.
    """
    known = ALPHABETS.get(alphabet.strip().lower())
    if known is None:
        raise MarkupError(f"phonetic alphabet {alphabet[:40]!r} is unknown; accepted are: {', '.join(ALPHABETS)}")
    written = phonemes.strip()
    if known == ARPABET:
        written = _from_arpabet(written, word)
    elif known == X_SAMPA:
        written = _X_SAMPA_FINDER.sub(lambda found: _X_SAMPA[found.group()], written)
    for old, new in sounds("symbol"):
        if english or old not in _ENGLISH_ONLY:
            written = written.replace(old, new)
    written = " ".join(written.split())
    unknown = sorted(set(written) - KOKORO_SYMBOLS)
    if unknown:
        listed = " ".join(unknown[:8])
        raise MarkupError(
            f"pronunciation of {word[:40]!r} has unknown phonemes: {listed}; write IPA, as in [Nguyen](/wˈɪn/)"
        )
    if not any(character.isalpha() for character in written.replace("ː", "").replace("ʰ", "").replace("ʲ", "")):
        raise MarkupError(f"pronunciation of {word[:40]!r} is empty; write IPA, as in [Nguyen](/wˈɪn/)")
    if len(written) > MAX_PHONEMES:
        raise MarkupError(f"pronunciation of {word[:40]!r} has {len(written)} phonemes; at most {MAX_PHONEMES}")
    return written


def _from_arpabet(written: str, word: str) -> str:
    sounds: list[str] = []
    for sound in written.upper().split():
        match = _SOUND.fullmatch(sound)
        symbol = _UNSTRESSED.get(sound) or (_ARPABET.get(match.group(1)) if match is not None else None)
        if symbol is None:
            raise MarkupError(
                f"pronunciation of {word[:40]!r} has the unknown sound {sound[:10]!r}; write ARPABET with spaces, as "
                "in 'M AE1 D IH0 S AH0 N'"
            )
        sounds.append(("" if match is None else _STRESS[match.group(2)]) + symbol)
    return "".join(sounds)
