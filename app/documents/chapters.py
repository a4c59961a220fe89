"""Chapters out of headings and paragraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from app.documents.blocks import Block
from app.documents.types import Chapter, DocumentError, Passage

MOST_CHAPTERS: Final = 5_000
MOST_CHARACTERS: Final = 10_000_000
MOST_TITLE: Final = 200
# Longest paragraph at the head of a chapter that may be its title once more.
_LONGEST_HEADING: Final = 120


class Assembler:
    """Maker of chapters: `begin` each, `add` its paragraphs, `finish`.

    The titles of a part and of its first chapter become one: "Part One: The Storm". A heading of the same level without
    a text, as in a table of contents, is left out. A chapter does not say its own title again.
    """

    def __init__(self) -> None:
        self._chapters: list[Chapter] = []
        self._passages: list[Passage] = []
        self._title, self._level = "", 0
        self._key = ""
        self._in_head = True
        self._characters = 0

    def begin(self, title: str, level: int) -> None:
        """Begin a chapter of a level from 1, the highest."""
        if self._title and not self._passages and level > self._level:
            title = f"{self._title}: {title}"
        self._close()
        self._title, self._level, self._key = title[:MOST_TITLE].strip(), level, _key(title)
        self._in_head = True

    def add(self, text: str, *, heading: bool = False) -> None:
        """Add a paragraph, or a heading within the chapter. Raises DocumentError: too much text."""
        if self._in_head and self._repeats(text, heading):
            return
        self._in_head = self._in_head and heading
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise DocumentError(f"The document has more than {MOST_CHARACTERS} characters, which is the limit.")
        if any(character.isalnum() for character in text):
            self._passages.append(Passage(text))

    def finish(self) -> tuple[Chapter, ...]:
        """Return the chapters. Raises DocumentError: there is nothing to speak."""
        self._close()
        if not self._chapters:
            raise DocumentError("The document has no text that can be spoken.")
        return tuple(self._chapters)

    def _close(self) -> None:
        if not self._passages:
            return
        if len(self._chapters) >= MOST_CHAPTERS:
            raise DocumentError(f"The document has more than {MOST_CHAPTERS} chapters, which is the limit.")
        self._chapters.append(Chapter(self._title, tuple(self._passages)))
        self._passages.clear()

    def _repeats(self, text: str, heading: bool) -> bool:
        if not self._key or len(text) > _LONGEST_HEADING:
            return False
        key = _key(text)
        return key == self._key or (heading and key in self._key)


def _key(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def split(blocks: Sequence[Block], title: str = "") -> tuple[str, tuple[Chapter, ...]]:
    """Return the title of a document and its chapters, by its headings.

    A lone highest heading is the title, unless `title` is given. Raises DocumentError: no text, too many chapters.
    """
    level = chapter_level(blocks)
    lone = lone_title(blocks)
    assembler = Assembler()
    for block in blocks:
        if block is lone and (not title or _key(block.text) in _key(title)):
            # The title of a document is not the title of its first chapter.
            title = title or block.text
        elif block.level and block.level <= level:
            assembler.begin(block.text, block.level)
        else:
            assembler.add(block.text, heading=block.level > 0)
    return title, assembler.finish()


def lone_title(blocks: Sequence[Block]) -> Block | None:
    """Return the heading that is the title: the only one of the highest level, before all others of lower levels."""
    headings = [block for block in blocks if block.level]
    if len(headings) < 2:
        return None
    first = headings[0]
    others = (block.level for block in headings[1:])
    return first if all(level > first.level for level in others) else None


def chapter_level(blocks: Sequence[Block]) -> int:
    """Return the level of the headings that begin chapters; 0 without headings.

    It is the highest that occurs twice, below parts: headings with no text before the next heading of a lower level.
    """
    counts = Counter(block.level for block in blocks if block.level)
    levels = sorted(counts)
    for level in levels[:-1]:
        if counts[level] > 1 and not _are_parts(blocks, level):
            return level
    return levels[-1] if levels else 0


def _are_parts(blocks: Sequence[Block], level: int) -> bool:
    following: Iterable[tuple[Block, Block | None]] = zip(blocks, [*blocks[1:], None], strict=True)
    return all(after is not None and after.level > level for block, after in following if block.level == level)
