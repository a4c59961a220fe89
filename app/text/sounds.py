"""Sounds of phonetic alphabets and of espeak-ng in Kokoro's alphabet, from the table `sounds.tsv`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from app.text.word_sets import read_rows

TIE: Final = "\u0361"
"""Ties the parts of one sound."""
ROWS: Final = read_rows(Path(__file__).with_name("sounds.tsv"))


@cache
def sounds(table: str) -> tuple[tuple[str, str], ...]:
    """Return the rows of a table in order: what is written, and its characters in Kokoro's alphabet."""
    return tuple((written.replace("_", TIE), "" if said == "-" else said) for written, said in ROWS[table])


def to_kokoro(ipa: str, *tables: str) -> str:
    """Return `ipa` with the sounds of some tables replaced, one after the other."""
    for table in tables:
        for written, said in sounds(table):
            ipa = ipa.replace(written, said)
    return ipa
