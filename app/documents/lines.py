"""A document as lines of JSON: the first has all but the passages, each of the others a passage.

Lines are short, so that threads which read or write many of them give way to others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from app.documents.types import Chapter, Document, Passage


class DamagedDocumentError(Exception):
    """Raised where lines are missing, or are no lines of a document."""


def to_lines(document: Document) -> Iterator[bytes]:
    """Yield a document without its cover."""
    chapters = [(chapter.title, len(chapter.passages)) for chapter in document.chapters]
    yield _line((document.title, document.author, document.language, chapters, document.warnings))
    for chapter in document.chapters:
        for passage in chapter.passages:
            yield _line((passage.text, passage.start, passage.end))


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def from_lines(lines: Iterable[bytes], cover: bytes | None) -> Document:
    """Return the document of `to_lines`. Raises DamagedDocumentError."""
    left = iter(lines)
    try:
        # Version 0.2.0 wrote no warnings.
        title, author, language, chapters, *more = json.loads(next(left))
        found = [
            Chapter(name, tuple(Passage(*json.loads(next(left))) for _ in range(count))) for name, count in chapters
        ]
    except (StopIteration, RuntimeError, TypeError, ValueError) as error:
        raise DamagedDocumentError from error
    return Document(title, author, language, cover, tuple(found), tuple(more[0]) if more else ())
