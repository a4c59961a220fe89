"""DOCX of Word and others (ECMA-376), opened by python-docx: chapters by the styles of headings."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from zipfile import BadZipFile

import docx
from docx.document import Document as WordDocument
from docx.opc.constants import RELATIONSHIP_TYPE
from lxml import etree

from app.books.documents.archive import Archive
from app.books.documents.blocks import MAX_BLOCKS, Block, one_line
from app.books.documents.chapters import split
from app.books.documents.markup import Element, local_name
from app.books.documents.superscripts import RAISED_BEGIN, RAISED_END, place_raised
from app.books.documents.types import Document, DocumentError
from app.text.word_sets import word_set

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HEADING: Final = re.compile(r"heading ([1-9])", re.I)
_CONTENTS: Final = re.compile(r"(?:toc|table of figures|index)\b", re.I)
# Deleted text, numbers and instructions of fields, boxes that repeat their text for old programs, notes.
_SILENT: Final = word_set("del movefrom instrtext deltext fallback footnotereference endnotereference")
_MAX_BASES: Final = 10
# Runs of text, and exponents of formulas.
_RUNS: Final = frozenset(("r", "sup"))
_SIGNS: Final = {"tab": " ", "br": " ", "cr": " ", "nobreakhyphen": "-"}
_OFF: Final = frozenset(("0", "false", "off"))
_TITLE_LEVEL: Final = 1
# Level of a style that says none.
_UNSET: Final = -1


def read_word(data: bytes) -> Document:
    """Read a DOCX file. Raises DocumentError: no DOCX, damaged, encrypted, or too large."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise DocumentError("The file is an old or encrypted Word file. Save it as DOCX, without a password.")
    archive = Archive.open(data, "DOCX")
    if not archive.has("[Content_Types].xml") or not archive.has("word/document.xml"):
        raise DocumentError("The file is no DOCX document: it lacks word/document.xml.")
    archive.check_markup(("word/document.xml", "word/styles.xml", "docProps/core.xml", "[Content_Types].xml"))
    try:
        document = docx.Document(io.BytesIO(data))
        blocks = list(_blocks(document))
        title = author = language = ""
        # Without a part for them python-docx has properties of its own.
        if any(each.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for each in document.part.package.rels.values()):
            properties = document.core_properties
            title, author, language = properties.title, properties.author, properties.language
    except (etree.LxmlError, KeyError, ValueError, TypeError, AttributeError, BadZipFile, zlib.error, OSError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError("The DOCX file cannot be read: it is damaged, or nested too deeply.") from error
    found, chapters = split(blocks, one_line(title or ""))
    return Document(found, one_line(author or ""), language or None, None, chapters)


@dataclass(frozen=True, slots=True)
class _Style:
    """What counts of a style: the level of its headings, 0 for text, None for a table of contents; None: not said."""

    level: int | None = 0
    hidden: bool | None = None
    raised: bool | None = None

    def with_runs(self, other: _Style) -> _Style:
        """Return the style of runs that have `other`, too, which goes before."""
        hidden = self.hidden if other.hidden is None else other.hidden
        return _Style(self.level, hidden, self.raised if other.raised is None else other.raised)


_PLAIN: Final = _Style()


def _blocks(document: WordDocument) -> Iterator[Block]:
    """Yield headings and paragraphs, those in tables and content controls, too."""
    styles = _styles(document)
    walk = etree.iterwalk(document.element.body, events=("start",))
    count, initial = 0, ""
    for _, element in walk:
        name = local_name(element)
        if name in _SILENT:
            walk.skip_subtree()
        elif name == "tr":
            text = ", ".join(filter(None, (_text(cell, styles) for cell in element if local_name(cell) == "tc")))
            walk.skip_subtree()
            if text:
                yield Block(text)
        elif name == "p":
            count += 1
            if count > MAX_BLOCKS:
                raise DocumentError(f"The DOCX file has more than {MAX_BLOCKS} paragraphs, which is the limit.")
            outline = element.find(f"{_W}pPr/{_W}outlineLvl")
            level = _paragraph_style(element, styles).level if outline is None else _outline(outline)
            text = _text(element, styles, initial)
            frame = element.find(f"{_W}pPr/{_W}framePr")
            # The first letter of the next paragraph, over several lines.
            initial = "" if frame is None or frame.get(f"{_W}dropCap", "none") == "none" else text
            if text and level is not None and not initial:
                yield Block(text, level)


def _styles(document: WordDocument) -> dict[str, _Style]:
    """Return the styles of paragraphs and of characters by their ids."""
    try:
        found = document.styles.element
    except OSError:  # python-docx opens its own file of styles where a document has none
        return {}
    own = {  # what a style itself says, and the id of the one that it is based on
        style.get(f"{_W}styleId", ""): (
            replace(_run_style(style, {}), level=_own_level(style)),
            _value(style, "basedOn"),
        )
        for style in found.iter(f"{_W}style")
    }
    return {key: _style(key, own) for key in own}


def _style(key: str, own: dict[str, tuple[_Style, str]]) -> _Style:
    """Return a style with what it has of those that it is based on."""
    result, base = own[key]
    for _ in range(_MAX_BASES - 1):
        if base not in own:
            break
        more, base = own[base]
        result = replace(more.with_runs(result), level=more.level if result.level == _UNSET else result.level)
    return replace(result, level=0) if result.level == _UNSET else result


def _own_level(style: Element) -> int | None:
    name = _value(style, "name")
    if _CONTENTS.match(name):
        return None
    if name.lower() == "title":
        return _TITLE_LEVEL
    if heading := _HEADING.fullmatch(name):
        return min(6, int(heading[1]) + 1)
    outline = style.find(f"{_W}pPr/{_W}outlineLvl")
    return _UNSET if outline is None else _outline(outline)


def _run_style(element: Element, styles: dict[str, _Style]) -> _Style:
    """Return what the properties (w:rPr) of a run or a style say of its characters."""
    properties = element.find(f"{_W}rPr")
    if properties is None:
        return _PLAIN
    hides, height = properties.find(f"{_W}vanish"), _value(properties, "vertAlign")
    hidden = None if hides is None else hides.get(f"{_W}val", "1") not in _OFF
    named = styles.get(_value(properties, "rStyle"), _PLAIN)
    return named.with_runs(_Style(0, hidden, height == "superscript" if height else None))


def _paragraph_style(paragraph: Element, styles: dict[str, _Style]) -> _Style:
    properties = paragraph.find(f"{_W}pPr")
    return _PLAIN if properties is None else styles.get(_value(properties, "pStyle"), _PLAIN)


def _outline(element: Element) -> int:
    """Return the level of a heading for an outline level of Word, which counts from 0; 9 is text."""
    value = element.get(f"{_W}val", "9")
    return min(6, int(value) + 2) if value.isdecimal() and int(value) < 9 else 0


def _value(element: Element, name: str) -> str:
    child = element.find(f"{_W}{name}")
    return "" if child is None else str(child.get(f"{_W}val", ""))


def _text(element: Element, styles: dict[str, _Style], initial: str = "") -> str:
    """Return the text of a paragraph behind its initial, without its text boxes, or of the paragraphs in a cell."""
    parts = [initial]
    paragraphs = [_PLAIN]
    raised: list[bool] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, part in walk:
        name = local_name(part)
        if event == "end":
            if name in _RUNS and raised.pop():
                parts.append(RAISED_END)
            elif name == "p":
                paragraphs.pop()
                parts.append(" ")
        elif name in _SILENT or (name == "txbxcontent" and local_name(element) == "p"):
            walk.skip_subtree()
        elif name == "p":
            paragraphs.append(_paragraph_style(part, styles))
            if part is not element and local_name(element) == "p":
                walk.skip_subtree()  # one within another is read on its own
        elif name in _RUNS:
            style = paragraphs[-1].with_runs(_run_style(part, styles))
            raised.append(not style.hidden and (name == "sup" or bool(style.raised)))
            if style.hidden:
                walk.skip_subtree()
            elif raised[-1]:
                parts.append(RAISED_BEGIN)
        else:
            parts.append(part.text or "" if name == "t" else _SIGNS.get(name, ""))
    return one_line(place_raised("".join(parts)))
