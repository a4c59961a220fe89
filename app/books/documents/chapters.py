"""Chapters out of headings and paragraphs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from app.books.documents.blocks import Block
from app.books.documents.types import Chapter, DocumentError, Passage

MAX_CHAPTERS: Final = 5_000
MAX_CHARACTERS: Final = 10_000_000
MAX_TITLE_CHARACTERS: Final = 200
# Characters of a heading that is one by its words alone.
_MAX_NAME_CHARACTERS: Final = 100
# Longest paragraph at the head of a chapter that may be its title once more.
_MAX_HEADING_CHARACTERS: Final = 120

# Signs of lines that divide: "*****", "===== Title =====", "-=-=-".
_RULE: Final = "=+*~#_%@&|§^<>/\\:.•◆■─━═-–— \t"
_SPARED: Final = re.compile(r"[.\s]*")

# "CHAPTER XII. The Storm", "Chapter Twenty-One", "Kapitel 3", "第十二章": a paragraph of its own, of one line.
_UNITS: Final = (
    "one|two|three|four|five|six|seven|eight|nine|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
)
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_TEENS: Final = "(?:t|elev|thirte|fourte|fifte|sixte|sevente|eighte|ninete)en(?:th)?|twel(?:ve|fth)"
_NUMBER: Final = rf"(?:\d{{1,4}}|[ivxlcdm]{{1,8}}|(?:the )?(?:{_TEENS}|{_UNITS}|(?:{_TENS})(?:[- ](?:{_UNITS}))?))"
_HEADING: Final = re.compile(
    rf"(?:(?P<part>part|book|volume|teil|partie|parte)|chapter|kapitel|chapitre|cap[ií]tulo|capitolo|hoofdstuk|глава) "
    rf"{_NUMBER}(?:[.:—–-].{{0,80}}|\s*)"
    r"|第[0-9０-９一二三四五六七八九十百千零〇两]{1,7}[章回节節部卷](?:[\s:：].{0,60})?"
    r"|(?:prologue|epilogue|preface|foreword|introduction|afterword|prolog|epilog|vorwort|nachwort|épilogue)\.?",
    re.I,
)


class Assembler:
    """Maker of chapters: `begin` each, `add` its paragraphs, `finish`.

    The titles of a part and of its first chapter become one: "Part One: The Storm". A heading of the same level without
    a text, as in a table of contents, is left out. A chapter does not say its own title again.
    """

    def __init__(self) -> None:
        self._chapters: list[Chapter] = []
        self._passages: list[Passage] = []
        self._title, self._level = "", 0
        self._key = self._own_key = ""
        self._in_head = True
        self._characters = 0

    def begin(self, title: str, level: int) -> None:
        """Begin a chapter of a level from 1, the highest."""
        title = without_rules(title)
        self._own_key = _key(title)
        if self._title and not self._passages and level > self._level:
            title = f"{self._title}: {title}"
        self._close()
        self._title, self._level, self._key = title[:MAX_TITLE_CHARACTERS].strip(), level, _key(title)
        self._in_head = True

    def add(self, text: str, *, heading: bool = False) -> None:
        """Add a paragraph, or a heading within the chapter. Raises DocumentError: too much text."""
        text = without_rules(text)
        if self._in_head and self._repeats(text, heading):
            return
        self._in_head = self._in_head and heading
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise DocumentError(f"The document has more than {MAX_CHARACTERS} characters, which is the limit.")
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
        if len(self._chapters) >= MAX_CHAPTERS:
            raise DocumentError(f"The document has more than {MAX_CHAPTERS} chapters, which is the limit.")
        self._chapters.append(Chapter(self._title, tuple(self._passages)))
        self._passages.clear()

    def _repeats(self, text: str, heading: bool) -> bool:
        if not self._key or len(text) > _MAX_HEADING_CHARACTERS:
            return False
        key = _key(text)
        return key in (self._key, self._own_key) or (heading and key in self._key)


def _key(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def same_title(text: str, title: str) -> bool:
    """Return whether two titles have the same letters and digits."""
    return _key(text) == _key(title)


def heading_level(line: str) -> int:
    """Return the level of a heading by its words: 1 for "Part One", 2 for "Chapter 1"; 0 for other text."""
    match = _HEADING.fullmatch(line) if len(line) <= _MAX_NAME_CHARACTERS else None
    return 0 if match is None else 1 if match["part"] else 2


def is_rule(line: str) -> bool:
    """Return whether a line has nothing but three or more signs that divide."""
    return not line.strip(_RULE) and len(line.replace(" ", "")) > 2 and not _SPARED.fullmatch(line)


def without_rules(text: str) -> str:
    """Return a heading or paragraph without the signs around it: "Title" of "===== Title ====="."""
    inner = text.lstrip(_RULE)
    head = text[: len(text) - len(inner)].strip()
    if not (is_rule(head) or head == "=="):
        head, inner = "", text
    tail = inner[len(inner.rstrip(_RULE)) :]
    # "A+++" is a word, unless the same signs stand before it.
    attached, space, apart = tail.partition(" ")
    rule = tail if not attached or attached[0] in head else space + apart
    return inner[: len(inner) - len(rule)] if is_rule(rule) or rule.strip() == "==" else inner


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
            title = title or without_rules(block.text)
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
