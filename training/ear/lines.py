"""Texts as the recognizer writes them, their tokens, and their phonemes for the teacher. Needs no part of the product.

A file of lines is compressed: text, American phonemes and British ones, by tabs, one text a line.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

TOKENS = 512  # of text; the special ones are behind them
MAX_CHARACTERS = 180  # about 14 s of speech
_PAUSES = re.compile(r"\s*[;:—…]+\s*")
_FOREIGN = re.compile(r"[^A-Za-z .,?!']")


@dataclass(frozen=True, slots=True)
class Line:
    """A text and its phonemes; those of an accent that does not speak it are ""."""

    text: str
    american: str
    british: str = ""


def target(text: str) -> str | None:
    """Return what the recognizer is to write for a text: words, and . , ? ! ' alone; None where other signs are left.

    Semicolons, colons, dashes and ellipses are pauses, and become commas.
    """
    text = re.sub(r"\s+", " ", _PAUSES.sub(", ", text)).strip()
    text = re.sub(r",+(?=[ .,?!])", ",", text).rstrip(" ,")
    text = re.sub(r",\s*([.?!])", r"\1", text)
    return text if text and not _FOREIGN.search(text) and len(text) <= MAX_CHARACTERS else None


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text, which begins with a space as Whisper's do."""
    found: list[int] = tokenizer.encode(f" {text}", add_special_tokens=False).ids
    return found


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Line(*row.rstrip("\n").split("\t")) for row in file]


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write lines to a file."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line.text}\t{line.american}\t{line.british}\n" for line in lines)
