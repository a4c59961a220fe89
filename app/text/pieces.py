"""Words and punctuation marks between normalization and pronunciation, each with its span of the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

Source = Literal["", "lexicon", "dictionary", "espeak", "letters", "markup"]
"""Origin of phonemes: a lexicon, the dictionary of a language, espeak-ng, letter names, or markup in the text."""


class PieceKind(Enum):
    """Kind of a piece."""

    WORD = "word"
    PUNCTUATION = "punctuation"
    PHONEMES = "phonemes"  # a word whose pronunciation is given by markup


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


def word(text: str, start: int, end: int, *, tag: str | None = None, glued: bool = False) -> Piece:
    """Return a word to be pronounced."""
    return Piece(PieceKind.WORD, text, start, end, tag=tag, glued=glued)


def punctuation(mark: str, start: int, end: int) -> Piece:
    """Return a punctuation mark, which is its own phoneme."""
    return Piece(PieceKind.PUNCTUATION, mark, start, end, phonemes=mark)


_RANK: Final = {",": 0, "—": 1, ":": 2, ";": 3, "…": 4, ".": 5, "!": 6, "?": 7}


def append_mark(pieces: list[Piece], mark: str, start: int, end: int) -> None:
    """Append a punctuation mark. Drop it at the start; of several in a row keep only the strongest."""
    if not pieces:
        return
    last = pieces[-1]
    if last.kind is not PieceKind.PUNCTUATION:
        pieces.append(punctuation(mark, start, end))
        return
    if _RANK[mark] > _RANK[last.text]:
        last.text = last.phonemes = mark
    last.end = end
