"""DOCX of Word and others (ECMA-376), opened by python-docx: chapters by the styles of headings."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from typing import Any, Final
from zipfile import BadZipFile

import docx
from docx.document import Document as WordDocument
from lxml import etree

from app.documents.archive import Archive
from app.documents.blocks import MOST_BLOCKS, Block, one_line
from app.documents.chapters import split
from app.documents.markup import Element, local_name
from app.documents.types import Document, DocumentError
from app.text.word_sets import word_set

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HEADING: Final = re.compile(r"heading ([1-9])", re.I)
_CONTENTS: Final = re.compile(r"(?:toc|table of figures|index)\b", re.I)
# Deleted text, numbers and instructions of fields, boxes that repeat their text for old programs, notes.
_SILENT: Final = word_set("del movefrom instrtext deltext fallback pict footnotereference endnotereference")
_MOST_BASES: Final = 10
_TITLE_LEVEL: Final = 1


def read_word(data: bytes) -> Document:
    """Read a DOCX file. Raises DocumentError: no DOCX, damaged, encrypted, or too large."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise DocumentError("The file is an old or encrypted Word file. Save it as DOCX, without a password.")
    archive = Archive.open(data, "DOCX")
    if not archive.has("[Content_Types].xml") or not archive.has("word/document.xml"):
        raise DocumentError("The file is no DOCX document: it lacks word/document.xml.")
    archive.check_entities(("word/document.xml", "word/styles.xml", "docProps/core.xml", "[Content_Types].xml"))
    try:
        document = docx.Document(io.BytesIO(data))
        blocks = list(_blocks(document))
        properties = document.core_properties
        title, author, language = properties.title, properties.author, properties.language
    except (etree.LxmlError, KeyError, ValueError, TypeError, AttributeError, BadZipFile, zlib.error, OSError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"The DOCX file cannot be read: {str(error)[:200]}.") from error
    found, chapters = split(blocks, one_line(title or ""))
    return Document(found, one_line(author or ""), language or None, None, chapters)


def _blocks(document: WordDocument) -> Iterator[Block]:
    """Yield headings and paragraphs, those in tables and content controls, too."""
    levels = _levels(document)
    walk = etree.iterwalk(document.element.body, events=("start",))
    count = 0
    for _, element in walk:
        name = local_name(element)
        if name in _SILENT:
            walk.skip_subtree()
        elif name == "tr":
            text = ", ".join(filter(None, (_text(cell) for cell in element if local_name(cell) == "tc")))
            walk.skip_subtree()
            if text:
                yield Block(text)
        elif name == "p":
            count += 1
            if count > MOST_BLOCKS:
                raise DocumentError(f"The DOCX file has more than {MOST_BLOCKS} paragraphs, which is the limit.")
            walk.skip_subtree()
            level = _level(element, levels)
            text = _text(element)
            if text and level is not None:
                yield Block(text, level)


def _levels(document: WordDocument) -> dict[str, int | None]:
    """Return for each style of paragraphs the level of its headings: 0 for text, None for a table of contents."""
    try:
        found = document.styles.element
    except OSError:  # python-docx opens its own file of styles where a document has none
        return {}
    styles: dict[str, Element] = {style.get(f"{_W}styleId", ""): style for style in found.iter(f"{_W}style")}
    return {key: _style_level(style, styles) for key, style in styles.items()}


def _style_level(style: Element | None, styles: dict[str, Any]) -> int | None:
    for _ in range(_MOST_BASES):
        if style is None:
            return 0
        name = _value(style, "name")
        if _CONTENTS.match(name):
            return None
        if name.lower() == "title":
            return _TITLE_LEVEL
        if heading := _HEADING.fullmatch(name):
            return min(6, int(heading[1]) + 1)
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        if outline is not None:
            return _outline(outline)
        style = styles.get(_value(style, "basedOn"))
    return 0


def _level(paragraph: Element, levels: dict[str, int | None]) -> int | None:
    properties = paragraph.find(f"{_W}pPr")
    if properties is None:
        return 0
    outline = properties.find(f"{_W}outlineLvl")
    if outline is not None:
        return _outline(outline)
    return levels.get(_value(properties, "pStyle"), 0)


def _outline(element: Element) -> int:
    """Return the level of a heading for an outline level of Word, which counts from 0; 9 is text."""
    value = element.get(f"{_W}val", "9")
    return min(6, int(value) + 2) if value.isdecimal() and int(value) < 9 else 0


def _value(element: Element, name: str) -> str:
    child = element.find(f"{_W}{name}")
    return "" if child is None else str(child.get(f"{_W}val", ""))


def _text(element: Element) -> str:
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start",))
    for _, part in walk:
        name = local_name(part)
        if name in _SILENT:
            walk.skip_subtree()
        elif name == "t":
            parts.append(part.text or "")
        elif name in ("tab", "br", "cr", "p"):
            parts.append(" ")
        elif name == "nobreakhyphen":
            parts.append("-")
    return one_line("".join(parts))
