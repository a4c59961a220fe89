"""A document as lines of JSON: the first has all but the passages, each of the others a passage.

Lines are short, so that threads which read or write many of them give way to others.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from app.books.documents.types import Chapter, Document, Passage


class DamagedDocumentError(Exception):
    """Raised where lines are missing, or are no lines of a document."""


class PassageLines(Sequence[Passage]):
    """Passages as they lie in a file. Each is read when it is asked for: it may raise DamagedDocumentError.

    Very many objects would make each collection of garbage long, in which no other thread runs.
    """

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> Passage: ...

    @overload
    def __getitem__(self, index: slice) -> PassageLines: ...

    def __getitem__(self, index: int | slice) -> Passage | PassageLines:
        if isinstance(index, slice):
            return PassageLines(self.lines[index])
        try:
            return Passage(*json.loads(self.lines[index]))
        except (TypeError, ValueError) as error:
            raise DamagedDocumentError from error

    def after(self, first: Passage) -> PassageLines:
        """Return the passages with another one before them."""
        return PassageLines([_passage(first), *self.lines])


def to_lines(document: Document) -> Iterator[bytes]:
    """Yield a document without its cover."""
    chapters = [(chapter.title, len(chapter.passages)) for chapter in document.chapters]
    yield _line((document.title, document.author, document.language, chapters, document.warnings))
    for chapter in document.chapters:
        passages = chapter.passages
        yield from passages.lines if isinstance(passages, PassageLines) else map(_passage, passages)


def _passage(passage: Passage) -> bytes:
    return _line((passage.text, passage.start, passage.end))


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def from_lines(lines: Iterable[bytes], cover: bytes | None) -> Document:
    """Return the document of `to_lines`. Raises DamagedDocumentError."""
    left = iter(lines)
    try:
        # Version 0.2.0 wrote no warnings.
        title, author, language, chapters, *more = json.loads(next(left))
        result = [Chapter(name, PassageLines(list(itertools.islice(left, count)))) for name, count in chapters]
        complete = all(len(chapter.passages) == count for chapter, (_, count) in zip(result, chapters, strict=True))
        if not complete or next(left, None) is not None:
            raise ValueError("the number of lines")
    except (StopIteration, TypeError, ValueError) as error:
        raise DamagedDocumentError from error
    return Document(title, author, language, cover, tuple(result), tuple(more[0]) if more else ())
