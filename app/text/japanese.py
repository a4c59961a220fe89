"""Japanese: words by fugashi with UniDic, phonemes by misaki. Needs the extra `ja`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from app.text import east_asian
from app.text.pieces import KOKORO_SYMBOLS, Piece, PieceKind, restrict


class Japanese:
    """Pronouncer of Japanese. Thread-safe. Raises UnsupportedLanguageError when made without its packages.

    `pronounce_foreign` fills in the phonemes of a word of another script.
    """

    def __init__(self, pronounce_foreign: Callable[[Piece], None]) -> None:
        self._pronounce_foreign = pronounce_foreign
        fugashi: Any = east_asian.import_extra("fugashi", "ja", "Japanese")
        module: Any = east_asian.import_extra("misaki.ja", "ja", "Japanese")
        east_asian.import_extra("unidic_lite", "ja", "Japanese")
        self._tagger = fugashi.Tagger()
        self._g2p = module.JAG2P()
        self._lock = threading.Lock()
        self._spoken = lru_cache(maxsize=4096)(self._speak)

    def normalize(self, text: str, offset: int) -> list[Piece]:
        """Return the words and marks of `text`."""
        pieces: list[Piece] = []
        for piece in east_asian.tokens(text, offset):
            if piece.kind is PieceKind.WORD and piece.tag == "native":
                with self._lock:
                    words = [item.surface for item in self._tagger(piece.text)]
                pieces += east_asian.cut(piece, words)
            else:
                pieces.append(piece)
        return pieces

    def pronounce(self, pieces: Sequence[Piece]) -> None:
        """Fill in the phonemes of one sentence, a run of native words at a time: particles need their context."""
        run: list[Piece] = []
        for piece in pieces:
            if piece.kind is PieceKind.WORD and piece.tag == "native":
                run.append(piece)
                continue
            self._pronounce_run(run)
            run = []
            if piece.kind is PieceKind.WORD:
                piece.phonemes = self._spoken(piece.text) if piece.tag == "number" else ""
                self._ensure_sound(piece)
        self._pronounce_run(run)

    def _pronounce_run(self, run: list[Piece]) -> None:
        if not run:
            return
        groups = self._spoken("".join(piece.text for piece in run)).split(" ")
        lengths = [len(self._spoken(piece.text)) for piece in run]
        counts = _share(lengths, [len(group) for group in groups])
        if counts is None:  # more groups than words: pronounce each word alone
            for piece in run:
                piece.phonemes = self._spoken(piece.text)
                self._ensure_sound(piece)
            return
        position = 0
        for group, count in zip(groups, counts, strict=True):
            members = run[position : position + count]
            members[0].phonemes = group
            for member in members:  # words of one group share one span
                member.start, member.end = members[0].start, run[position + count - 1].end
            self._ensure_sound(members[0])
            position += count

    def _speak(self, text: str) -> str:
        try:
            with self._lock:
                phonemes: str = self._g2p(text)[0]
        except east_asian.G2P_ERRORS:
            return ""
        return " ".join(restrict(phonemes, KOKORO_SYMBOLS).split())

    def _ensure_sound(self, piece: Piece) -> None:
        if not any(character.isalpha() for character in piece.phonemes):
            self._pronounce_foreign(piece)


def _share(words: list[int], groups: list[int]) -> list[int] | None:
    """Return how many consecutive words make each group, so that the lengths agree best; None if impossible.

    `words` and `groups` are phoneme counts. Dynamic programming over the ends of the groups.
    """
    if len(groups) > len(words):
        return None
    sums = [0]
    for length in words:
        sums.append(sums[-1] + length)
    costs: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for k, group in enumerate(groups):
        left = len(groups) - k - 1
        reached: dict[int, tuple[int, list[int]]] = {}
        for start, (cost, counts) in costs.items():
            for end in range(start + 1, min(start + 12, len(words) - left) + 1):
                total = cost + abs(sums[end] - sums[start] - group)
                if end not in reached or total < reached[end][0]:
                    reached[end] = (total, [*counts, end - start])
        costs = reached
    return costs[len(words)][1] if len(words) in costs else None
