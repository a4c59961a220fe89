"""Sets of words, written as one string, and tables of words and rules in files of their own.

A line of a table is the columns of a row; tabs separate them. Lines that begin with "# " are comments.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

Rows = list[list[str]]
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`, which spaces separate."""
    return frozenset(text.split())


def read_rows(*paths: Path) -> dict[str, Rows]:
    """Return the rows of tables by the name in their first column, without it."""
    rows: dict[str, Rows] = defaultdict(list)
    for path in paths:
        for table, *row in _lines(path):
            rows[table].append(row)
    return rows


def read_rules(path: Path) -> Rows:
    """Return the rows of a table of rules: name, other columns, pattern. Rows without a name go on with the pattern."""
    rows: Rows = []
    for row in _lines(path):
        if row[0]:
            rows.append(row)
        else:
            rows[-1][-1] += row[-1]
    return rows


def expand(pattern: str, parts: Mapping[str, str]) -> str:
    """Return `pattern` with each "{name}" replaced by that part, which may have names in turn."""
    return _PLACEHOLDER.sub(lambda match: expand(parts[match[1]], parts), pattern)


def _lines(path: Path) -> Rows:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("# ")]
