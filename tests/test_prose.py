"""The first word of every docstring: a verb or a noun phrase, never a question word."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "models", "loadtest", "training", "tests", ".ci")
REFUSED = {"What", "Who", "Whose", "How", "When", "Where", "Of"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_begins_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        if text.split()[0].strip(",'\"") in REFUSED
    ]
    assert found == [], "say it with a verb or a noun phrase:\n" + "\n".join(found)
