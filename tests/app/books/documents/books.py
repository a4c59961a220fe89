"""EPUB books as publishers' tools write them, made in the test; and what is read of a document."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import docx

from app.books.documents.types import Document

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = (
    '<?xml version="1.0" encoding="utf-8"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
    '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Lighthouse</dc:title>'
    '<dc:creator id="a">Ada Author</dc:creator><dc:creator id="e">Ed Itor</dc:creator>'
    '<meta refines="#e" property="role">edt</meta><dc:language>en-GB</dc:language>{metadata}</metadata>'
    "<manifest>{manifest}</manifest><spine>{spine}</spine></package>"
)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def page(body: str, attributes: str = "") -> str:
    """A page of XHTML; its empty title would swallow the page by HTML's rules."""
    return (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" '
        f'xmlns:epub="http://www.idpf.org/2007/ops"><head><title/></head><body {attributes}>{body}</body></html>'
    )


def epub(
    pages: Mapping[str, str | bytes],
    *,
    toc: str = "",
    ncx: str = "",
    files: Mapping[str, str | bytes] | None = None,
    manifest: str = "",
    metadata: str = "",
    spine: str | None = None,
    container: str = CONTAINER,
) -> bytes:
    """A book with these pages in its spine. `toc`: the list of its navigation document; `ncx`: its navigation map."""
    listed = [manifest] + [f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in pages]
    order = "".join(f'<itemref idref="{name}"/>' for name in pages) if spine is None else spine
    parts: dict[str, str | bytes] = {f"OEBPS/{name}": data for name, data in pages.items()}
    if toc:
        listed.append('<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>')
        parts["OEBPS/nav.xhtml"] = page(f'<nav epub:type="toc"><h1>Contents</h1>{toc}</nav>')
        order = '<itemref idref="nav"/>' + order
    if ncx:
        listed.append('<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>')
        parts["OEBPS/toc.ncx"] = (
            '<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" '
            '"http://www.daisy.org/z3986/2005/ncx-2005-1.dtd"><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/">'
            f"<navMap>{ncx}</navMap></ncx>"
        )
    package = PACKAGE.format(metadata=metadata, manifest="".join(listed), spine=order)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("OEBPS/content.opf", package)
        for name, data in {**parts, **(files or {})}.items():
            archive.writestr(name, data)
    return file.getvalue()


def outline(document: Document) -> list[tuple[str, list[str]]]:
    """Return the title of each chapter, and its passages."""
    return [(chapter.title, [passage.text for passage in chapter.passages]) for chapter in document.chapters]


def zipped(parts: dict[str, str]) -> bytes:
    """An archive of these parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


def word(body: str, styles: str = "") -> bytes:
    """A DOCX file with what a program would not write."""
    file, space = io.BytesIO(), "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    docx.Document().save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name).decode("latin-1") for name in archive.namelist() if "thumb" not in name}
    parts["word/document.xml"] = f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
    return zipped(parts | {"word/styles.xml": f'<w:styles xmlns:w="{space}">{styles}</w:styles>'})
