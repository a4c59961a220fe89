"""Phonetic alphabets of markup: IPA, X-SAMPA and ARPABET, to the phoneme characters of the models.

The target is Kokoro's alphabet (misaki's EN_PHONES document). X-SAMPA is J. C. Wells' table of 1995; ARPABET is that of
the CMU Pronouncing Dictionary, one symbol per sound with 0, 1 or 2 for the stress of a vowel.
"""

from __future__ import annotations

import re
from typing import Final

from app.errors import MarkupError
from app.text.pieces import KOKORO_SYMBOLS

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

_SYMBOLS: Final = (
    ("\u0361", ""), ("eɪ", "A"), ("aɪ", "I"), ("aʊ", "W"), ("ɔɪ", "Y"), ("oʊ", "O"), ("əʊ", "Q"), ("tʃ", "ʧ"),
    ("dʒ", "ʤ"), ("ɝ", "ɜɹ"), ("g", "ɡ"), ("'", "ˈ"), ("ɫ", "l"), ("ɾ", "T"), ("ʔ", "t"), (".", ""),
)  # fmt: skip
_ENGLISH_ONLY: Final = frozenset(("ɾ", "ʔ"))

_X_SAMPA: Final = dict(
    pair.split(":")
    for pair in (  # noqa: SIM905  (a table of sounds)
        "A:ɑ {:æ @:ə V:ʌ E:ɛ I:ɪ O:ɔ U:ʊ Q:ɒ 3:ɜ 6:ɐ 1:ɨ }:ʉ M:ɯ 2:ø 9:œ Y:ʏ 7:ɤ 8:ɵ &:ɶ @`:ɚ 3`:ɝ r\\:ɹ R:ʁ 4:ɾ "
        "T:θ D:ð S:ʃ Z:ʒ N:ŋ J:ɲ L:ʎ H:ɥ G:ɣ B:β C:ç X:χ P:ʋ F:ɱ K:ɬ W:ʍ g:ɡ h\\:ɦ j\\:ʝ s\\:ɕ z\\:ʑ s`:ʂ z`:ʐ t`:ʈ "
        "d`:ɖ n`:ɳ l`:ɭ r`:ɽ ?:ʔ \":ˈ %:ˌ -: ~:\u0303 _~:\u0303 =:\u0329 _=:\u0329 _h:ʰ _j:ʲ ':ʲ _^: ^: I\\:ᵻ"
    ).split(" ")
) | {":": "ː", ":\\": "ˑ"}  # fmt: skip
_X_SAMPA_FINDER: Final = re.compile("|".join(map(re.escape, sorted(_X_SAMPA, key=len, reverse=True))))

_ARPABET: Final = dict(
    pair.split(":")
    for pair in (  # noqa: SIM905  (a table of sounds)
        "AA:ɑ AE:æ AH:ʌ AO:ɔ AW:W AY:I B:b CH:ʧ D:d DH:ð EH:ɛ ER:ɜɹ EY:A F:f G:ɡ HH:h IH:ɪ IY:i JH:ʤ K:k L:l M:m N:n "
        "NG:ŋ OW:O OY:Y P:p R:ɹ S:s SH:ʃ T:t TH:θ UH:ʊ UW:u V:v W:w Y:j Z:z ZH:ʒ"
    ).split()
)  # fmt: skip
_UNSTRESSED: Final = {"AH0": "ə", "ER0": "əɹ", "AX": "ə", "AXR": "əɹ", "DX": "T"}
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
    for old, new in _SYMBOLS:
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
