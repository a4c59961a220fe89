"""Word errors against a text."""

from __future__ import annotations

import re
from collections.abc import Sequence


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation, apostrophes kept."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("’", "'"))


def word_errors(spoken: Sequence[str], heard: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions that turn `spoken` into `heard`."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(spoken, 1):
        before = row
        row = [i]
        for j, other in enumerate(heard, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other)))
    return row[-1]
