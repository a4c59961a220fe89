"""EPUB 2 and 3 (www.w3.org/TR/epub-33): a zip archive of XHTML pages in the order of a spine.

Chapters are those of the navigation document or of the NCX; without either, those of the headings.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

from app.books.cover import is_cover
from app.books.documents.archive import Archive
from app.books.documents.blocks import Block, one_line, read_blocks
from app.books.documents.chapters import MAX_CHAPTERS, Assembler, heading_level, same_title, split
from app.books.documents.markup import Element, local_attribute, local_name, parse_page, parse_xml
from app.books.documents.types import Chapter, Document, DocumentError
from app.text.word_sets import word_set

_PAGES: Final = frozenset(("application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/xml"))
_NCX: Final = "application/x-dtbncx+xml"
# Fonts are scrambled without a protection of the text.
_FONT_SCRAMBLING: Final = frozenset(("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"))
_SILENT_PAGES: Final = word_set(
    "cover titlepage halftitlepage copyright-page toc landmarks page-list index loi lot endnotes rearnotes footnotes "
    "doc-cover doc-toc doc-index doc-endnotes colophon"
)
_GUIDE_SILENT: Final = frozenset(("cover", "toc", "title-page", "copyright-page", "index", "loi", "lot", "notes"))
_MAX_SPINE: Final = 20_000
_MAX_LEVELS: Final = 3
_MAX_FALLBACKS: Final = 8


@dataclass(frozen=True, slots=True)
class _Item:
    """File of a book, as its package document lists it."""

    path: str
    media_type: str
    properties: frozenset[str]
    fallback: str


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """Entry of a table of contents: the place at which a chapter begins. `parent` is the entry it lies in."""

    title: str
    path: str
    fragment: str
    level: int
    parent: _Entry | None = None

    @property
    def place(self) -> tuple[str, str]:
        """File and fragment."""
        return self.path, self.fragment

    @property
    def within(self) -> bool:
        """Whether it lies in the file of its parent: it is a section of a chapter, or a chapter of a part."""
        return self.parent is not None and self.parent.path == self.path != ""


@dataclass(frozen=True, slots=True)
class _Page:
    path: str
    blocks: list[Block]


class _Package:
    """Package document of a book (.opf): metadata, files, spine."""

    def __init__(self, archive: Archive, path: str) -> None:
        self.path = path
        self.root = parse_xml(archive.markup(path), path)
        self.items: dict[str, _Item] = {}
        self.spine: list[str] = []
        self.metadata: dict[str, list[Element]] = {}
        self.guide: dict[str, str] = {}
        for element in self.root.iter():
            self._take(element)

    def _take(self, element: Element) -> None:
        name = local_name(element)
        parent = local_name(element.getparent()) if element.getparent() is not None else ""
        if name == "item" and parent == "manifest":
            self.items[element.get("id", "")] = _Item(
                _resolve(self.path, element.get("href", ""))[0],
                element.get("media-type", "").lower(),
                frozenset(element.get("properties", "").split()),
                element.get("fallback", ""),
            )
        elif name == "itemref" and element.get("linear") != "no":
            self.spine.append(element.get("idref", ""))
            if len(self.spine) > _MAX_SPINE:
                raise DocumentError(f"The spine of the EPUB file has more than {_MAX_SPINE} items.")
        elif name == "reference":
            self.guide[_resolve(self.path, element.get("href", ""))[0]] = element.get("type", "").lower()
        elif parent in ("metadata", "dc-metadata", "x-metadata"):
            self.metadata.setdefault(name, []).append(element)

    def first(self, name: str) -> str:
        """Return the first metadata of this name; "" if absent."""
        texts = (one_line("".join(element.itertext())) for element in self.metadata.get(name, ()))
        return next((text for text in texts if text), "")

    def authors(self) -> str:
        """Return the names of the creators, but not of editors and the like where an author is named."""
        creators = self.metadata.get("creator", [])
        roles = {
            element.get("refines", "").lstrip("#"): one_line(element.text or "")
            for element in self.metadata.get("meta", ())
            if element.get("property") == "role"
        }
        named = [
            (one_line("".join(each.itertext())), local_attribute(each, "role") or roles.get(each.get("id", "-"), ""))
            for each in creators
        ]
        written = [name for name, role in named if role in ("", "aut") and name] or [name for name, _ in named if name]
        return ", ".join(dict.fromkeys(written))

    def pages(self) -> Iterator[str]:
        """Yield the paths of the pages in the order of the spine, each once."""
        seen: set[str] = set()
        for name in self.spine:
            item = self.items.get(name)
            for _ in range(_MAX_FALLBACKS):
                if item is None or item.media_type in _PAGES:
                    break
                item = self.items.get(item.fallback)
            if item is not None and item.media_type in _PAGES and item.path not in seen:
                seen.add(item.path)
                yield item.path


def read_epub(data: bytes) -> Document:
    """Read an EPUB book. Raises DocumentError: no EPUB, damaged, protected, or too large."""
    archive = Archive.open(data, "EPUB")
    if not archive.has("META-INF/container.xml"):
        raise DocumentError("The file is no EPUB book: it lacks META-INF/container.xml.")
    _refuse_protected(archive)
    package = _Package(archive, _package_path(archive))
    entries = _contents(archive, package)
    places = {entry.place for entry in entries}
    pages = [_Page(path, _at_headings(path, blocks, places)) for path, blocks in _pages(archive, package) if blocks]
    chapters = _by_contents(pages, entries) if entries else _by_headings(pages, package.first("title"))
    if len(entries) == 1 and any(block.level for page in pages for block in page.blocks):
        # A single entry, such as "Start", tells nothing about the chapters.
        chapters = max(chapters, _by_headings(pages, package.first("title")), key=len)
    return Document(
        package.first("title"), package.authors(), package.first("language") or None, _cover(archive, package), chapters
    )


def _resolve(base: str, reference: str) -> tuple[str, str]:
    """Return the path in the archive and the fragment of a reference in the file `base`."""
    path, _, fragment = reference.partition("#")
    joined = posixpath.join(posixpath.dirname(base), unquote(path)) if path else base
    return posixpath.normpath(joined), unquote(fragment)


def _refuse_protected(archive: Archive) -> None:
    if not archive.has("META-INF/encryption.xml"):
        return
    for element in parse_xml(archive.markup("META-INF/encryption.xml"), "META-INF/encryption.xml").iter():
        if local_name(element) == "encryptionmethod" and element.get("Algorithm") not in _FONT_SCRAMBLING:
            raise DocumentError("The EPUB book is protected (DRM), so that its text cannot be read. Send it without.")


def _package_path(archive: Archive) -> str:
    container = parse_xml(archive.markup("META-INF/container.xml"), "META-INF/container.xml")
    for element in container.iter():
        if local_name(element) == "rootfile" and (path := element.get("full-path")):
            return posixpath.normpath(str(path))
    raise DocumentError("The EPUB book names no package document.")


def _pages(archive: Archive, package: _Package) -> Iterator[tuple[str, list[Block]]]:
    navigation = {item.path for item in package.items.values() if "nav" in item.properties}
    for path in package.pages():
        if path in navigation or package.guide.get(path) in _GUIDE_SILENT:
            continue
        root = parse_page(archive.markup(path), path)
        if not _is_silent_page(root):
            yield path, list(read_blocks(root))


def _at_headings(path: str, blocks: list[Block], places: set[tuple[str, str]]) -> list[Block]:
    """Return the blocks of a page with each place directly behind a heading at that heading, unless it has its own."""
    for at, (heading, block) in enumerate(pairwise(blocks)):
        behind = frozenset(each for each in block.ids if (path, each) in places)
        own = heading.ids | ({""} if not at else set())
        if behind and heading.level and not block.level and places.isdisjoint((path, each) for each in own):
            blocks[at : at + 2] = replace(heading, ids=heading.ids | behind), replace(block, ids=block.ids - behind)
    return blocks


def _is_silent_page(root: Element) -> bool:
    """Return whether a whole page is a cover, a table of contents or the like."""
    for element in root.iter():
        name = local_name(element)
        if name in ("html", "head") or (element.getparent() is not None and local_name(element.getparent()) == "head"):
            continue
        words = f"{local_attribute(element, 'type')} {element.get('role', '')}".lower().split()
        if _SILENT_PAGES.intersection(words):
            return True
        if name not in ("body", "section", "div"):
            return False
    return False


# The table of contents


def _contents(archive: Archive, package: _Package) -> list[_Entry]:
    for item in package.items.values():
        if "nav" in item.properties and archive.has(item.path):
            entries = list(_navigation(parse_page(archive.markup(item.path), item.path), item.path))
            if entries:
                return entries
    for item in package.items.values():
        if item.media_type == _NCX and archive.has(item.path):
            return list(_walk(parse_xml(archive.markup(item.path), item.path), item.path, "navpoint"))
    return []


def _navigation(root: Element, path: str) -> Iterator[_Entry]:
    for element in root.iter():
        if local_name(element) == "nav" and (
            "toc" in local_attribute(element, "type").split() or element.get("role") == "doc-toc"
        ):
            yield from _walk(element, path, "li")
            return


def _walk(root: Element, base: str, name: str) -> Iterator[_Entry]:
    """Yield the entries of a tree of elements `name`. One without a title lends its place to those within it."""
    opened: dict[Element, _Entry | None] = {}
    count = 0
    for element in root.iter():
        if local_name(element) != name:
            continue
        around = next((each for each in element.iterancestors() if local_name(each) == name), None)
        if around is not None and around not in opened:
            continue
        parent = None if around is None else opened[around]
        title, target = _label(element, name)
        path, fragment = _resolve(base, target) if target else ("", "")
        level = 1 if parent is None else parent.level + 1
        if level > _MAX_LEVELS:
            continue
        count += 1
        if count > MAX_CHAPTERS:
            raise DocumentError(f"The table of contents has more than {MAX_CHAPTERS} entries, which is the limit.")
        if not title and any(local_name(each) == name for each in element.iterdescendants()):
            opened[element] = parent
            continue
        opened[element] = entry = _Entry(title, path, fragment, level, parent)
        yield entry


def _label(element: Element, name: str) -> tuple[str, str]:
    """Return the title and the reference of an entry, without those of the entries within it."""
    title = target = ""
    for child in element:
        kind = local_name(child)
        if kind in ("a", "span", "navlabel") and not title:
            title = one_line("".join(child.itertext()))
        if kind in ("a", "content") and not target:
            target = child.get("href") or child.get("src") or ""
    return title, target


# Chapters


def _by_contents(pages: list[_Page], entries: list[_Entry]) -> tuple[Chapter, ...]:
    places: dict[str, dict[str, list[_Entry]]] = {}
    waiting: list[_Entry] = []
    for entry in _chapters_of(entries, pages):
        # The title of a part that has no page goes to its first chapter.
        waiting.append(entry)
        if entry.path:
            places.setdefault(entry.path, {}).setdefault(entry.fragment, []).extend(waiting)
            waiting = []
    numbers = {entry: number for number, entry in enumerate(entries)}
    assembler = Assembler()
    for page in pages:
        begins = places.get(page.path, {})
        known = frozenset().union(*(block.ids for block in page.blocks))
        # A place that the page does not have is its beginning, where no other entry comes before.
        first = min(begins, key=lambda fragment: numbers[begins[fragment][-1]], default="")
        found = [entry for fragment in {"", first} - known for entry in begins.get(fragment, ())]
        for block in page.blocks:
            for place in block.ids.intersection(begins):
                found += begins[place]
            for entry in sorted(found, key=numbers.__getitem__):
                assembler.begin(entry.title or (block.text if block.level else ""), entry.level)
            found = []
            assembler.add(block.text, heading=block.level > 0)
    return assembler.finish()


def _chapters_of(entries: list[_Entry], pages: list[_Page]) -> Iterator[_Entry]:
    """Yield the entries that are parts and chapters, and not the sections within a chapter.

    Entries in the file of their parent are chapters where the words of the titles say so. Else the parent must have no
    text of its own, and be the only one of its level, or one of several in its file.
    """
    blocks = _places(entries, pages)
    levels = Counter(entry.level for entry in entries)
    beside = Counter((entry.level, entry.path) for entry in entries)
    first: dict[_Entry, _Entry] = {}
    parts: set[_Entry] = set()
    for entry in entries:
        if entry.parent is not None and entry.within:
            first.setdefault(entry.parent, entry)
            if heading_level(entry.parent.title) == 1 or heading_level(entry.title) == 2:
                parts.add(entry.parent)
    left: set[_Entry] = set()
    for entry in entries:
        # A section lies within a chapter, or at a place that the page does not have.
        section = entry.within and (entry.parent not in parts or (entry.fragment and entry.place not in blocks))
        if section or entry.parent in left:
            left.add(entry)
            continue
        yield entry
        inner = first.get(entry)
        several = levels[entry.level] == 1 or beside[entry.level, entry.path] > 1
        if inner is not None and several and heading_level(entry.title) != 2:
            begin, end = blocks.get(entry.place, (0, 0))[1], blocks.get(inner.place, (0, 0))[0]
            if begin >= end:
                parts.add(entry)


def _places(entries: list[_Entry], pages: list[_Page]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return for the places of entries their block in the page, and the next one that is text besides their titles."""
    wanted: dict[str, dict[str, str]] = {}
    for entry in entries:
        wanted.setdefault(entry.path, {}).setdefault(entry.fragment, entry.title)
    result: dict[tuple[str, str], tuple[int, int]] = {}
    for page in pages:
        titles = wanted.get(page.path, {})
        following = after = len(page.blocks)  # the next two paragraphs
        for at in range(len(page.blocks) - 1, -1, -1):
            block = page.blocks[at]
            if not block.level:
                following, after = at, following
            for place in block.ids.intersection(titles) | ({""} if not at and "" in titles else set()):
                repeated = following < len(page.blocks) and same_title(page.blocks[following].text, titles[place])
                result[page.path, place] = at, after if repeated else following
    return result


def _by_headings(pages: list[_Page], title: str) -> tuple[Chapter, ...]:
    blocks = [block for page in pages for block in page.blocks]
    if any(block.level for block in blocks):
        return split(blocks, title)[1]
    assembler = Assembler()
    for page in pages:
        assembler.begin("", 1)
        for block in page.blocks:
            assembler.add(block.text)
    return assembler.finish()


def _cover(archive: Archive, package: _Package) -> bytes | None:
    named = {
        element.get("content", "") for element in package.metadata.get("meta", ()) if element.get("name") == "cover"
    }
    for key, item in package.items.items():
        if "cover-image" in item.properties or (key in named and item.media_type.startswith("image/")):
            data = archive.read(item.path) if archive.has(item.path) else b""
            return data if is_cover(data) else None
    return None
