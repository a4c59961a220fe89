"""Blocks of a page: its headings and paragraphs in order, without what a listener does not want.

Left out: scripts, navigation, marks and texts of footnotes, numbers of printed pages, readings above characters (ruby),
code, hidden parts, form controls, images.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lxml import etree

from app.books.documents.markup import Element, local_attribute, local_name
from app.books.documents.superscripts import RAISED_BEGIN, RAISED_END, place_raised
from app.books.documents.types import DocumentError
from app.text.word_sets import word_set

MAX_BLOCKS: Final = 200_000
MAX_DEPTH: Final = 250

_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_BLOCKS: Final = word_set(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure "
    "footer form header hr html legend li main ol p pre section summary table tbody tfoot thead title tr ul"
)
_SILENT: Final = word_set(
    "script style head nav template svg math audio video canvas iframe object embed img picture button input select "
    "option textarea rt rp noscript map area link meta"
)
# Stands between two cells of a row until the row is whole. No text of a page has it.
_CELL: Final = "\x1f"
_CELLS: Final = frozenset(("td", "th"))
_SILENT_TYPES: Final = word_set(
    "noteref footnote footnotes endnote endnotes rearnote rearnotes note pagebreak toc page-list landmarks loi lot "
    "backlink doc-noteref doc-footnote doc-endnote doc-endnotes doc-pagebreak doc-toc doc-pagelist doc-backlink"
)
_SILENT_CLASSES: Final = word_set(
    "pagenum pageno page-number pagenumber pagebreak noteref footnote-ref footnoteref fnref fnanchor footnotes "
    "footnote-backref pg-boilerplate"
)
# Mark of a note: a number, a letter, a star, maybe in brackets.
_MARK: Final = re.compile(r"[\[(]?(?:\d{1,4}|[a-z]|[ivxlc]{1,6}|[*†‡§¶‖#]{1,4}|[↩↑^]\ufe0e?)[\])]?", re.I)
_MAX_MARK_CHARACTERS: Final = 12
_HIDING: Final = re.compile(r"(?:^|;)\s*+(?:display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden)\b", re.I)
_SELECTOR: Final = re.compile(r"(?!(?:html|body)\Z)[a-z][a-z0-9]{0,20}|[.#][\w-]{1,99}", re.I)
# Comments of a style sheet, and its rules for a medium and the like, also unfinished ones.
_SKIPPED: Final = re.compile(r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|@[^{}@;]*+(?:;|\{(?:[^{}]++|\{[^{}]*+\}?)*+\}?)?")
_UNSEEN: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Block:
    """Heading (`level` 1 to 6) or paragraph (`level` 0). `ids` name the places at which it begins."""

    text: str
    level: int = 0
    ids: frozenset[str] = frozenset()


def one_line(text: str) -> str:
    """Return `text` in one line, without marks that are not seen."""
    return _SPACE.sub(" ", _UNSEEN.sub("", text)).strip()


def read_blocks(root: Element) -> Iterator[Block]:
    """Yield the blocks of a page. Raises DocumentError: too many, or elements too deep in each other."""
    reader = _Reader()
    hidden = _hidden_by_rules(root)
    depth = count = 0
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        if event == "start":
            depth += 1
            if depth > MAX_DEPTH:
                raise DocumentError(f"The page has elements more than {MAX_DEPTH} deep in each other.")
            names = [local_name(element), f"#{element.get('id')}", *map(".{}".format, element.get("class", "").split())]
            if is_silent(element) or not hidden.isdisjoint(names):
                reader.note_place(element)
                walk.skip_subtree()
            else:
                reader.open(element)
        elif event == "end":
            depth -= 1
            reader.close(element)
        if event != "start":
            reader.add(element.tail)
        count += len(reader.done)
        if count > MAX_BLOCKS:
            raise DocumentError(f"The page has more than {MAX_BLOCKS} paragraphs, which is the limit.")
        yield from reader.take()
    reader.end_block()
    yield from reader.take()


def _hidden_by_rules(root: Element) -> set[str]:
    """Return the simple selectors ("p", ".a", "#b") that the style sheets in a page hide; not those of a medium."""
    hidden: set[str] = set()
    for sheet in root.iter("{*}style"):
        parts = re.split("[{}]", _SKIPPED.sub("", sheet.text or ""))
        for selectors, rule in zip(parts[::2], parts[1::2], strict=False):
            if _HIDING.search(rule):
                hidden.update(filter(_SELECTOR.fullmatch, map(str.strip, selectors.split(","))))
            elif "display" in rule:
                hidden.difference_update(map(str.strip, selectors.split(",")))
    return hidden


class _Reader:
    """State between the elements of a page: the text of the block that is read."""

    def __init__(self) -> None:
        self.done: list[Block] = []
        self._text: list[str] = []
        self._ids: set[str] = set()
        self._level = 0
        self._breaks = 0
        self._raised = 0

    def take(self) -> list[Block]:
        done, self.done = self.done, []
        return done

    def open(self, element: Element) -> None:
        name = local_name(element)
        level = _HEADINGS.get(name, 0)
        if level or name in _BLOCKS:
            self.end_block()
            self._level = level or self._level
        elif name in _CELLS:
            self._text.append(_CELL)
        elif name == "br":
            self._break_line()
        elif name == "sup":
            self._raised += 1
            self._text.append(RAISED_BEGIN)
        self.note_place(element)
        self.add(element.text)

    def note_place(self, element: Element) -> None:
        for key in ("id", "name"):
            if place := element.get(key):
                self._ids.add(str(place))

    def close(self, element: Element) -> None:
        name = local_name(element)
        if name == "sup" and self._raised:  # a silent one was not opened
            self._raised -= 1
            self._text.append(RAISED_END)
        if name in _BLOCKS or name in _HEADINGS:
            self.end_block()
        if name in _HEADINGS:
            self._level = 0

    def add(self, text: str | None) -> None:
        if text:
            self._text.append(text)
            if self._breaks and not text.isspace():
                self._breaks = 0

    def _break_line(self) -> None:
        self._breaks += 1
        # Two breaks of a line are how old pages write paragraphs.
        if self._breaks > 1 and not self._level:
            self.end_block()
        else:
            self._text.append(" ")

    def end_block(self) -> None:
        text = place_raised("".join(self._text))
        if _CELL in text:
            text = ", ".join(filter(None, map(one_line, text.split(_CELL))))
        text = one_line(text)
        self._text.clear()
        self._breaks = 0
        if text:
            self.done.append(Block(text, self._level, frozenset(self._ids)))
            self._ids.clear()


def is_silent(element: Element) -> bool:
    """Return whether an element and its content are not for a listener."""
    name = local_name(element)
    if not name or name in _SILENT or element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    if _HIDING.search(element.get("style", "")):
        return True
    words = f"{local_attribute(element, 'type')} {element.get('role', '')}".lower().split()
    if name not in ("ol", "ul", "li") and _SILENT_TYPES.intersection(words):
        return True
    if _SILENT_CLASSES.intersection(element.get("class", "").lower().split()):
        return True
    if name == "pre":
        return any(local_name(child) == "code" for child in element)
    return name in ("a", "sup") and _is_mark(element)


def _is_mark(element: Element) -> bool:
    """Return whether a link or a raised text is only the mark of a note."""
    text = ""
    for part in element.itertext():
        text += part.strip()
        if len(text) > _MAX_MARK_CHARACTERS:
            return False
    if not _MARK.fullmatch(text):
        return False
    links = [part for part in element.iter() if local_name(part) == "a" and "#" in part.get("href", "")]
    raised = any(local_name(part) == "sup" for part in (element, *element.iter(), *element.iterancestors()))
    return bool(links) and (raised or not text.isalnum())
