"""Parts of a document: chapters, and the passages that are spoken one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_WARNINGS: Final = 20
"""Warnings that a document keeps, and one line more that counts the others."""


class DocumentError(ValueError):
    """Raised for a document that cannot be used. The message is written for the person who sent it."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Paragraph of a text, or cue of subtitles with its times.

    `text` has no line breaks and is never blank. `start` and `end` are seconds from the beginning; both are None for a
    paragraph. The cues of a document are in order of their starts; they may overlap.
    """

    text: str
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Chapter:
    """Chapter with at least one passage. `title` may be empty; the passages do not repeat it."""

    title: str
    passages: Sequence[Passage]


@dataclass(frozen=True, slots=True)
class Document:
    """Document with at least one chapter.

    `title` and `author` may be empty. `language` is the BCP-47 tag that the document names, None where it names none.
    `cover` holds the bytes of a JPEG or PNG file. `warnings` say what of the file is left out or guessed, as `bounded`.
    """

    title: str
    author: str
    language: str | None
    cover: bytes | None
    chapters: tuple[Chapter, ...]
    warnings: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """Characters of all passages."""
        return sum(len(passage.text) for chapter in self.chapters for passage in chapter.passages)

    @property
    def timed(self) -> bool:
        """Whether its passages have their times, as those of subtitles."""
        return self.chapters[0].passages[0].start is not None


def bounded(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the first MAX_WARNINGS warnings, and a line that counts the others."""
    more = len(warnings) - MAX_WARNINGS
    return (*warnings[:MAX_WARNINGS], *([f"There are {more} more warnings."] if more > 0 else []))
