"""Readings of English text."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.text.english.g2p import READERS
from app.text.english.normalize import normalize
from app.text.pieces import Piece, PieceKind

TABLE = Path(__file__).with_name("normalized.tsv").read_text(encoding="utf-8")
ROWS = [line.split("\t") for line in TABLE.splitlines() if not line.startswith("# ")]


def pieces(text: str, offset: int = 0, *, british: bool = False) -> list[Piece]:
    return normalize(text, offset, READERS, british=british)


def read(text: str, *, british: bool = False) -> str:
    out = ""
    for piece in pieces(text, british=british):
        out += piece.text if piece.kind is PieceKind.PUNCTUATION or piece.glued or not out else f" {piece.text}"
    return out


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:24])
def test_reading(row: list[str]) -> None:
    text, spoken, *whose = row
    assert read(text, british=whose == ["british"]) == spoken


def test_an_expansion_keeps_the_characters_it_came_from() -> None:
    text = "Pay $5.50 by 9 am."
    spans = [(piece.text, text[piece.start : piece.end]) for piece in pieces(text)]
    assert spans == [
        ("Pay", "Pay"), ("five", "$5.50"), ("dollars", "$5.50"), ("and", "$5.50"), ("fifty", "$5.50"),
        ("cents", "$5.50"), ("by", "by"), ("nine", "9"), ("AM", "am"), (".", "."),
    ]  # fmt: skip


def test_offset_is_added() -> None:
    assert [(piece.start, piece.end) for piece in pieces("one two", 100)] == [(100, 103), (104, 107)]
