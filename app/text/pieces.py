"""Pieces of a sentence: its words and punctuation marks, from the text to utterances.

The pronouncer of a language makes pieces of a text and fills in their phonemes. `make_utterances` joins them to phoneme
strings of bounded length. `canonical` folds the characters of a text; `restrict` those of phonemes; `restress` changes
the stress of a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, Protocol

from app.text.types import PhonemizedSentence, WordSpan
from app.text.word_sets import word_set

# Marks of stress, and the vowels before which they stand, in the phonemes of Kokoro.
PRIMARY: Final = "ˈ"
SECONDARY: Final = "ˌ"
VOWELS: Final = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")

Source = Literal["", "lexicon", "dictionary", "espeak", "letters", "markup", "user-lexicon"]
"""Origin of phonemes: a lexicon, the dictionary of a language, espeak-ng, letter names, markup, a user's lexicon."""


class PieceKind(Enum):
    """Kind of a piece."""

    WORD = "word"
    PUNCTUATION = "punctuation"  # a mark, which is its own phoneme
    PHONEMES = "phonemes"  # a word whose pronunciation is given by markup


_MARK: Final = PieceKind.PUNCTUATION  # looking up a member of an enumeration takes longer


@dataclass(slots=True)
class Piece:
    """One word to be spoken, or one punctuation mark.

    Pieces with equal `start` and `end` speak the same characters of the original ("$5" gives "five", "dollars").
    No space separates a `glued` piece from the one before. `tag` is a Penn Treebank tag if normalization knows it.
    `source` is the origin of the phonemes. `rule` is the rule that chose the text, or "".
    """

    kind: PieceKind
    text: str
    start: int
    end: int
    phonemes: str = ""
    glued: bool = False
    tag: str | None = None
    source: Source = ""
    rule: str = ""

    @property
    def is_mark(self) -> bool:
        """Return whether this is a punctuation mark."""
        return self.kind is _MARK


def word(text: str, start: int, end: int, *, tag: str | None = None, glued: bool = False) -> Piece:
    """Return a word to be pronounced."""
    return Piece(PieceKind.WORD, text, start, end, tag=tag, glued=glued)


_RANK: Final = {",": 0, "—": 1, ":": 2, ";": 3, "…": 4, ".": 5, "!": 6, "?": 7}


def append_mark(pieces: list[Piece], mark: str, start: int, end: int) -> None:
    """Append a punctuation mark. Drop it at the start; of several in a row keep only the strongest."""
    if not pieces:
        return
    last = pieces[-1]
    if not last.is_mark:
        pieces.append(Piece(PieceKind.PUNCTUATION, mark, start, end, phonemes=mark))
        return
    if _RANK[mark] > _RANK[last.text]:
        last.text = last.phonemes = mark
    last.end = end


class Pronouncer(Protocol):
    """Rules of one language. Both methods may be called from any thread."""

    def normalize(self, text: str, offset: int) -> list[Piece]:
        """Return the words and marks of `text`, which begins at character `offset` of the request."""
        ...

    def pronounce(self, pieces: Sequence[Piece]) -> None:
        """Fill in the phonemes of all words of one sentence."""
        ...


_STRENGTH: Final = {".": 3, "!": 3, "?": 3, "…": 3, ";": 3, ":": 3, "—": 2, ",": 2}
_CONJUNCTIONS: Final = word_set("and but or because which who when while if so although where than")


def make_utterances(
    text: str, start: int, end: int, pieces: Sequence[Piece], *, symbols: frozenset[str], max_phonemes: int
) -> Iterator[PhonemizedSentence]:
    """Yield the utterances of one sentence; none if it has no sound.

    Args:
        text: The whole text of the request.
        start: First character of the sentence in `text`.
        end: Character after the sentence.
        pieces: Pieces of the sentence with their phonemes. They are changed.
        symbols: Phoneme characters of the model.
        max_phonemes: Bound of `Utterance.phonemes` in characters, at least 1. Longer words are divided.
    """
    words = [part for word in _join_words(pieces, symbols) for part in _divide(word, max_phonemes)]
    if all(word.is_mark for word in words):
        return
    start, end = _strip(text, start, end)
    groups = list(_groups(words, max_phonemes))
    starts = [start, *(next(word for word in group if not word.is_mark).start for group in groups[1:])]
    for i, group in enumerate(groups):
        stop = starts[i + 1] if i + 1 < len(groups) else max(end, group[-1].end)
        quoted = _utterance(text, starts[i], stop, group, quotes=symbols.issuperset("“”"))
        yield quoted if len(quoted.phonemes) <= max_phonemes else _utterance(text, starts[i], stop, group, quotes=False)


def _join_words(pieces: Sequence[Piece], symbols: frozenset[str]) -> list[Piece]:
    """Return the pieces that have a sound. Words of the same characters become one, with all their phonemes."""
    joined: list[Piece] = []
    before: Piece | None = None  # the word before the piece, if no mark is between
    for piece in pieces:
        piece.phonemes = restrict(piece.phonemes, symbols)
        if not piece.phonemes.strip():
            continue
        if piece.is_mark:
            before = None
        elif before is not None and (piece.start, piece.end) == (before.start, before.end):
            before.phonemes += " " + piece.phonemes
            continue
        else:
            piece.glued = piece.glued and before is not None
            before = piece
        joined.append(piece)
    return joined


def _divide(word: Piece, limit: int) -> list[Piece]:
    """Cut a word that is longer than `limit`. Each part gets its share of the characters."""
    if len(word.phonemes) <= limit:
        return [word]
    parts: list[str] = []
    for spoken in word.phonemes.split(" "):
        if parts and len(parts[-1]) + 1 + len(spoken) <= limit:
            parts[-1] += " " + spoken
        else:
            parts += [spoken[i : i + limit] for i in range(0, len(spoken), limit)]
    length, count = word.end - word.start, len(parts)
    bounds = [word.start + length * i // count for i in range(count + 1)]
    return [
        Piece(PieceKind.WORD, word.text, start, end, phonemes=part)
        for part, (start, end) in zip(parts, pairwise(bounds), strict=True)
    ]


def _groups(words: list[Piece], limit: int) -> Iterator[list[Piece]]:
    """Cut a sentence into runs of at most `limit` phonemes, if possible after marks."""
    first = 0
    while first < len(words):
        if words[first].is_mark:  # an utterance does not begin with a mark
            first += 1
            continue
        length, last = 0, first
        while last < len(words):
            word = words[last]
            added = len(word.phonemes) + (0 if word.is_mark or word.glued or last == first else 1)
            if length + added > limit:
                break
            length += added
            last += 1
        if last < len(words):
            most, last = last, _best_boundary(words, first, last)
            if last == most and all(word.is_mark for word in words[last:]):
                # The marks at the end go with the word before them.
                last = next((i for i in range(most - 1, first, -1) if not words[i].is_mark), most)
        yield words[first:last]
        first = last


def _best_boundary(words: list[Piece], first: int, last: int) -> int:
    total = sum(len(word.phonemes) + 1 for word in words[first:last])
    best, best_strength, length = last, 0, 0
    for i in range(first + 1, last + 1):
        length += len(words[i - 1].phonemes) + 1
        if length * 3 < total:
            continue
        if words[i - 1].is_mark:
            strength = _STRENGTH.get(words[i - 1].text, 1)
        else:
            strength = 1 if i < len(words) and words[i].text.lower() in _CONJUNCTIONS else 0
        if strength >= best_strength and strength > 0:
            best, best_strength = i, strength
    return best


def _utterance(text: str, start: int, end: int, group: list[Piece], *, quotes: bool) -> PhonemizedSentence:
    """Return the utterance of some pieces; with `quotes`, the quotation marks beside its words are phonemes, too."""
    start, end = _strip(text, start, end)
    phonemes = ""
    words: list[WordSpan] = []
    position = start
    for word in group:
        closing, opening = _quotes_between(text, position, word.start) if quotes else ("", "")
        phonemes += closing if phonemes else ""
        position = max(position, word.end)
        if word.is_mark:
            phonemes += word.phonemes
            continue
        if phonemes and not word.glued:
            phonemes += " "
        phonemes += opening
        begin = len(phonemes)
        phonemes += word.phonemes
        words.append(WordSpan(text[word.start : word.end], word.start, word.end, begin, len(phonemes)))
    phonemes += _quotes_between(text, position, end)[0] if quotes else ""
    return PhonemizedSentence(text[start:end], start, end, phonemes, tuple(words))


def _quotes_between(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the quotation mark that closes before [start, end) ends, and the one that opens there; "" for none.

    A mark opens beside the word after it, and closes beside what is before it. After a digit it means inches.
    """
    between = text[start:end]
    if not 0 < len(between) <= _WIDEST_QUOTES or not _ONLY_QUOTES.fullmatch(between):
        return "", ""
    closing = opening = ""
    for i in range(start, end):
        if text[i] not in _QUOTATION_MARKS:
            continue
        left, right = text[i - 1 : i] if i else "", text[i + 1 : i + 2]
        closes, opens = bool(left) and not left.isspace() and left not in "([—", right.isalnum() or right in "([¿¡"
        if closes == (opens and bool(right)):
            closes, opens = text[i] in "”»", text[i] in "“«"
        if closes and not left.isdecimal():
            closing = "”"
        elif opens and bool(right):
            opening = "“"
    return closing, opening


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


# Characters of phonemes

PUNCTUATION: Final = frozenset(";:,.!?—…")
"""Marks that are spoken as pauses or intonation."""

KOKORO_SYMBOLS: Final = frozenset(
    ';:,.!?—…"()“” \u0303ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyz'
    "ɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)
"""The 114 characters that have an id in the checkpoint's `config.json`."""

STRESS: Final = frozenset("ˈˌ")

_QUOTATION_MARKS: Final = frozenset('"“”„‟«»＂')
# What may stand between two words with a quotation mark: no markup, whose attributes have quotation marks, too.
_ONLY_QUOTES: Final = re.compile(r"[\s\"“”„‟«»＂'‘’.,;:!?…—–()\[\]¿¡-]*")
_WIDEST_QUOTES: Final = 16

# A near sound for characters that a model may lack.
_NEAREST: Final = {"g": "ɡ", "ɝ": "ɜɹ", "ʱ": "ʰ", "ɫ": "l", "ɬ": "l", "ʉ": "u", "ɘ": "ə", "ɵ": "ə", "ʏ": "y", "ʍ": "w",
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


# Characters of texts

# Marks that belong to the letter before them: accents, Hebrew and Arabic points, Indic and South-East Asian vowels.
COMBINING: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u06d6-\u06ed\u0900-\u0963\u0971-\u0dff"
    "\u0e00-\u109f\u1780-\u17ff\u200c\u200d"
)
"""Ranges for a character class of a regular expression."""

RATE: Final = (
    r"(?<![\w/.$€£-])(?:(?:k?m|[cmµμ]m|mi|ft|[kKMGT][bBo]|[mµμ]?[lLg]|kg|mcg|gal|m?mol|kcal)/(?:h|hr|s[²2]?|sec|min)"
    r"|(?:[mµμ]?g|kg|mcg|m?mol|kcal|kJ|m[lL])/(?:[md]?[lL]|[ck]?m[²2]|c?m[³3]|kg|g|mol)"
    r"|(?:k?[WJNV]|kWh)/(?:[ck]?m[²2³3]?|kg|mol))(?![\w/])"
)
"""Expression of a unit per another one, without a number. "N/A", "w/o", "km/mi" and "s/he" are none."""

_QUOTES: Final = {"‘": "'", "’": "'", "‚": "'", "‛": "'", "`": "'", "´": "'", "ʼ": "'", "＇": "'", "“": '"', "”": '"',
           "„": '"', "‟": '"', "«": '"', "»": '"', "‐": "-", "‑": "-", "‒": "–", "―": "—", "⁓": "—", "。": ".",
           "、": ",", "،": ",", "؛": ";", "؟": "?", "।": ".", "॥": ".", "۔": ".", "¡": " ", "¿": " ", "\u00a0": " ",
           "\u2028": "\n", "\u2029": "\n", "\u0085": "\n", "⁄": "/", "∕": "/", "·": " ", "•": " "}  # fmt: skip
_ASCII_CONTROLS: Final = dict.fromkeys((*range(9), 9, 11, 12, 13, *range(14, 32), 127), " ") | {96: "'"}


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
        first = next((i for i, character in enumerate(phonemes) if character in VOWELS), -1)
        mark = PRIMARY if stress > 1 else SECONDARY
        return phonemes if first < 0 else phonemes[:first] + mark + phonemes[first:]
    if stress >= 1 and not has_primary:
        return phonemes.replace(SECONDARY, PRIMARY)
    return phonemes
