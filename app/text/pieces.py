"""What normalization hands to pronunciation: words and punctuation, each tied to the characters it came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

Source = Literal["", "lexicon", "dictionary", "espeak", "letters", "markup"]
"""Origin of phonemes: a lexicon, a dictionary of a language, espeak-ng, letters one by one, or the text itself."""


class PieceKind(Enum):
    """What a piece is."""

    WORD = "word"
    PUNCTUATION = "punctuation"
    PHONEMES = "phonemes"  # the pronunciation was given by markup


@dataclass(slots=True)
class Piece:
    """One word to be spoken, or one punctuation mark.

    Pieces with equal `start` and `end` speak the same characters of the original ("$5" gives "five", "dollars").
    `glued` pieces follow the one before without a space. `tag` is a Penn Treebank tag where normalization knows it.
    `source` names the origin of the phonemes, and `rule` the rule that chose the text, where one did.
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
    """Append a punctuation mark; none comes first, and of several in a row only the strongest stays."""
    if not pieces:
        return
    last = pieces[-1]
    if last.kind is not PieceKind.PUNCTUATION:
        pieces.append(punctuation(mark, start, end))
        return
    if _RANK[mark] > _RANK[last.text]:
        last.text = last.phonemes = mark
    last.end = end
