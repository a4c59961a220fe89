"""Mandarin Chinese: words by jieba, readings by pypinyin, phonemes and tones by misaki. Needs the extra `zh`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from app.text import east_asian
from app.text.pieces import KOKORO_SYMBOLS, Piece, PieceKind, restrict


class Chinese:
    """Pronouncer of Mandarin. Thread-safe. Raises UnsupportedLanguageError when made without its packages.

    `pronounce_foreign` fills in the phonemes of a word of another script.
    """

    def __init__(self, pronounce_foreign: Callable[[Piece], None]) -> None:
        self._pronounce_foreign = pronounce_foreign
        self._jieba: Any = east_asian.import_extra("jieba", "zh", "Chinese")
        self._cn2an: Any = east_asian.import_extra("cn2an", "zh", "Chinese")
        self._g2p: Any = east_asian.import_extra("misaki.zh", "zh", "Chinese").ZHG2P
        self._jieba.setLogLevel(logging.WARNING)
        self._lock = threading.Lock()

    def normalize(self, text: str, offset: int) -> list[Piece]:
        """Return the words and marks of `text`; digits become Chinese numerals."""
        pieces: list[Piece] = []
        for piece in east_asian.tokens(text, offset):
            if piece.kind is PieceKind.WORD and piece.tag == "native":
                with self._lock:
                    pieces += east_asian.cut(piece, self._jieba.lcut(piece.text, cut_all=False))
            else:
                pieces.append(piece)
        return pieces

    def pronounce(self, pieces: Sequence[Piece]) -> None:
        """Fill in the phonemes of one sentence."""
        for piece in pieces:
            if piece.kind is not PieceKind.WORD:
                continue
            if piece.tag in ("number", "native"):
                piece.phonemes = self._read(piece)
            if not any(character.isalpha() for character in piece.phonemes):
                self._pronounce_foreign(piece)

    def _read(self, piece: Piece) -> str:
        """Return the phonemes of a word or number, or "" if it has none."""
        try:
            reading = piece.text
            if piece.tag == "number":
                with self._lock:
                    reading = self._cn2an.transform(piece.text, "an2cn")
            spoken: str = self._g2p.word2ipa(reading)
        except east_asian.G2P_ERRORS:
            return ""
        spoken = restrict(spoken.replace("\u032f", ""), KOKORO_SYMBOLS).strip()
        # pypinyin returns characters that it cannot read.
        return "" if any(character.isdecimal() for character in spoken) else spoken
