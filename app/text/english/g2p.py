"""Pronouncer of English. Kokoro's phonemes of a word come from the lexicon, else espeak-ng, else its letters."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from app.text.english import abbreviations, codes, dates, measures, names, normalize, plurals, quantities, signs
from app.text.english.inflection import add_s
from app.text.english.lexicon import CONSONANTS, NOTHING_FOLLOWS, Following, get_lexicon
from app.text.english.normalize import Reader
from app.text.english.other_scripts import runs
from app.text.english.patterns import KINDS
from app.text.english.tagger import Tagger, has_sense, sound_by_sense
from app.text.espeak import get_espeak
from app.text.pieces import KOKORO_SYMBOLS, PUNCTUATION, VOWELS, Piece, PieceKind, Source, restress, restrict
from app.text.sounds import TIE, to_kokoro
from app.text.word_sets import word_set

_LOG = logging.getLogger(__name__)
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
# A word in capitals that can be read: consonants between vowels, at least two syllables.
_SYLLABLES: Final = re.compile(
    r"(?:[BCDFGHJKLMNPQRSTVWXZ]|[BCDFGKPST][LR]|CH|SH|TH|ST|SP)[AEIOUY]{1,2}"
    r"(?:[BCDFGHJKLMNPQRSTVWXZ]{1,2}[AEIOUY]{1,2})+[BCDFGHJKLMNPQRSTVWXZ]?"
)
_SYLLABIC: Final = "\u0329"

_MODULES: Final = (abbreviations, codes, dates, measures, names, normalize, plurals, quantities, signs)
_FUNCTIONS: Final = {name: value for module in _MODULES for name, value in vars(module).items()}
READERS: Final[dict[str, Reader]] = {kind: _FUNCTIONS[f"read_{kind}"] for kind in KINDS}
"""Reader of each kind of token, by the name of its group in `patterns.FINDER`."""


class EnglishG2P:
    """Pronouncer of American or British English. Thread-safe.

    `other_script` returns the phonemes of a word that is not in Latin letters, or "".
    """

    def __init__(self, *, british: bool, other_script: Callable[[str], str] = lambda _: "") -> None:
        self._british = british
        self._other_script = other_script
        self._lexicon = get_lexicon(british=british)
        self._unlisted = lru_cache(maxsize=4096)(self._pronounce_unlisted)

    def normalize(self, text: str, offset: int) -> list[Piece]:
        """Return the words and marks that speak `text`, which begins at character `offset` of the request."""
        return normalize.normalize(text, offset, READERS, british=self._british)

    def pronounce(self, pieces: Sequence[Piece]) -> None:
        """Fill in `phonemes` of every word of one sentence, from its end: a sound depends on the next one."""
        tagger = Tagger(["" if piece.is_mark else piece.text for piece in pieces])
        following = NOTHING_FOLLOWS
        for i in range(len(pieces) - 1, -1, -1):
            piece = pieces[i]
            if piece.kind is PieceKind.WORD:
                piece.phonemes, piece.source = self._word(piece, i, tagger, following)
            following = Following(_begins_with_vowel(piece.phonemes, following.vowel), piece.text.lower() == "to")
        for before, piece in pairwise(pieces):
            if piece.glued and piece.text == "'s" and before.phonemes:
                piece.phonemes = (add_s(before.phonemes, british=self._british) or "")[len(before.phonemes) :]
        for piece in pieces:
            if piece.kind is PieceKind.WORD:
                piece.phonemes = restrict(piece.phonemes.replace("ɾ", "T").replace("ʔ", "t"), KOKORO_SYMBOLS)

    def _word(self, piece: Piece, i: int, tagger: Tagger, following: Following) -> tuple[str, Source]:
        text = piece.text.replace("’", "'")
        if piece.tag == "LETTERS":
            spelled = self._lexicon.spell(text)
            return (spelled, "letters") if spelled else self._unlisted(text)
        if text.isascii():
            if has_sense(text.lower()):
                said = sound_by_sense(tagger.words, i, tagger.tag(i), british=self._british)
                if said is not None:
                    ending = text.lower().endswith("'s")
                    return (add_s(said, british=self._british) or said if ending else said), "lexicon"
            lower = text.lower()
            tagged = lower in _CONTEXTUAL or text.isupper() or self._lexicon.has_choice(lower)
            tag = piece.tag or (tagger.tag(i) if tagged else "NN")
            phonemes = self._lexicon.pronounce(text, tag, following)
            unlisted = self._lexicon.silver(text.lower()) is None
            if phonemes and not _is_shouted_name(text, unlisted, shouting=tagger.shouting):
                is_spelled = text.isupper() and len(text) > 1 and phonemes == self._lexicon.spell(text)
                return phonemes, "letters" if is_spelled else "lexicon"
            parts = _parts(text)
            if len(parts) > 1:
                return self._compound(parts, following)
        return self._unlisted(text)

    def _compound(self, parts: list[str], following: Following) -> tuple[str, Source]:
        """Return the phonemes of "well-known" or "GitHub" as one word. Only the first part keeps its stress."""
        spoken: list[str] = []
        source: Source = "lexicon"
        for i, part in enumerate(reversed(parts)):
            phonemes = self._lexicon.pronounce(part, "NN", following if i == 0 else NOTHING_FOLLOWS)
            if not phonemes:
                phonemes, source = self._unlisted(part)
            spoken.append(phonemes)
        first, *others = reversed(spoken)
        return "".join([first, *(restress(phonemes, -0.5) for phonemes in others)]), source

    def _pronounce_unlisted(self, text: str) -> tuple[str, Source]:
        """Return the phonemes of a word that is in no lexicon, and their source."""
        if not text.isascii():
            parts = runs(text)
            if len(parts) > 1:
                said = (self._lexicon.pronounce(part) or self._unlisted(part)[0] for part in parts)
                return " ".join(filter(None, said)), "espeak"
            other = self._other_script(text)
            if any(character in VOWELS for character in other):
                return other, "espeak"
        text = unicodedata.normalize("NFC", text)
        plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
        listed = self._lexicon.pronounce(plain, "NN") if plain != text and plain.isascii() and plain else None
        if listed and "\u0308" in unicodedata.normalize("NFKD", text):  # "naïve": two dots change no sound
            return listed, "lexicon"
        espeak = get_espeak("en-gb" if self._british else "en-us")
        if espeak is not None:
            spoken = self._from_espeak(espeak.phonemes(text.lower() if text.isupper() else text))
            # espeak-ng reads an unknown character as "letter" and its code.
            coded = not text.isascii() and "lˌɛ" in spoken
            if not coded and any(character in VOWELS for character in spoken):
                return spoken, "espeak"
        return (listed, "lexicon") if listed else (self._spell_out(plain), "letters")

    def _from_espeak(self, ipa: str) -> str:
        ipa = to_kokoro(ipa, "english", "british" if self._british else "american")
        ipa = re.sub(rf"(\S){_SYLLABIC}", r"ᵊ\1", ipa).replace("o", "ɔ").replace(TIE, "")
        return restrict(ipa, KOKORO_SYMBOLS).strip()

    def _spell_out(self, text: str) -> str:
        """Return the names of letters. Characters of another script give the name of the script, once for a run."""
        spoken: list[str] = []
        for character in text:
            name = self._lexicon.spell(character) if character.isascii() and character.isalpha() else None
            if name is None and character.isalnum():
                script = unicodedata.name(character, "unknown").split()[0].split("-")[0].lower()
                script = {"cjk": "chinese"}.get(script, script)
                name = " ".join(filter(None, (self._listed_or_known(word) for word in (script, "letter"))))
            if name and (not spoken or spoken[-1] != name or character.isascii()):
                spoken.append(name)
        return " ".join(spoken)

    def _listed_or_known(self, word: str) -> str:
        listed = self._lexicon.pronounce(word, "NN") if word.isalpha() and word.isascii() else None
        if listed:
            return listed
        espeak = get_espeak("en-gb" if self._british else "en-us")
        return self._from_espeak(espeak.phonemes(word)) if espeak is not None else ""


_CONTEXTUAL: Final = word_set("a an the to in am i used that by")


def _is_shouted_name(text: str, unlisted: bool, *, shouting: bool) -> bool:
    """Return whether a capitalized word that the lexicon would spell is none: "KUBERNETES", or "JOSE" in a headline."""
    named = len(text) > 6 or (shouting and _SYLLABLES.fullmatch(text) is not None)
    return unlisted and named and text.isupper() and text.isalpha() and not _is_listed(text)


@lru_cache(maxsize=4096)
def _is_listed(text: str) -> bool:
    lexicon = get_lexicon(british=False)
    lower = text.lower()
    return lexicon.gold(text) is not None or lexicon.gold(lower) is not None or lexicon.pronounce(lower) is not None


def _begins_with_vowel(phonemes: str, otherwise: bool | None) -> bool | None:
    """Return whether speech starts with a vowel; None at a pause, `otherwise` if it has no sound."""
    for character in phonemes:
        if character in PUNCTUATION:
            return None
        if character in VOWELS:
            return True
        if character in CONSONANTS:
            return False
    return otherwise


def _parts(text: str) -> list[str]:
    """Cut a word at its hyphens and inner capitals: "e-mail", "GitHub", "iPhone", but not "McKay" or "O'Neil"."""
    parts: list[str] = []
    for part in text.split("-"):
        if part and part[:2] not in ("Mc", "Ma", "O'", "D'", "L'") and not part.isupper():
            parts += _INNER_CAPITAL.split(part)
        elif part:
            parts.append(part)
    return parts
