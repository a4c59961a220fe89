"""English as `app.text.phonemizer` uses it."""

from __future__ import annotations

from collections.abc import Sequence

from app.text.english.g2p import EnglishG2P
from app.text.english.normalize import normalize
from app.text.pieces import Piece


class English:
    """American or British English."""

    def __init__(self, *, british: bool) -> None:
        self._british = british
        self._g2p = EnglishG2P(british=british)

    def normalize(self, text: str, offset: int) -> list[Piece]:
        """Return the words and marks that speak `text`."""
        return normalize(text, offset, british=self._british)

    def pronounce(self, pieces: Sequence[Piece]) -> None:
        """Fill in the phonemes of one sentence."""
        self._g2p.pronounce(pieces)
