"""Formats of documents, by the ending of the name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Final, Literal, get_args

from app.books.documents.types import Document, DocumentError

DocumentFormat = Literal["txt", "md", "html", "epub", "docx", "srt", "vtt"]
DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = get_args(DocumentFormat)
_ALIASES: Final[dict[str, DocumentFormat]] = {
    **{name: name for name in DOCUMENT_FORMATS},
    "text": "txt",
    "markdown": "md",
    "htm": "html",
    "xhtml": "html",
}
_ACCEPTED: Final = ", ".join(f".{name}" for name in DOCUMENT_FORMATS)
_MAX_NAME_CHARACTERS: Final = 200
# Form of a BCP-47 tag (RFC 5646); documents also name a language by its English name, or not at all.
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}")
# First bytes of files that people send by mistake.
_OTHERS: Final = {b"%PDF": "a PDF file", b"PK\x03\x04": "a zip archive", b"\xd0\xcf\x11\xe0": "an old Word file"}


def document_format(name: str) -> DocumentFormat:
    """Return the format of a document called `name`. Raises DocumentError, which lists those that are accepted."""
    ending = PurePath(name).suffix.lstrip(".").lower()
    if ending not in _ALIASES:
        found = f"'.{ending[:20]}'" if ending else "no ending"
        raise DocumentError(f"The name of the document has {found}; accepted are {_ACCEPTED}.")
    return _ALIASES[ending]


def parse(data: bytes, name: str) -> Document:
    """Read a document in this process. A title that it lacks is its name. Raises DocumentError."""
    kind = document_format(name)
    if not data.strip():
        raise DocumentError("The document is empty.")
    if kind not in ("epub", "docx"):
        for head, found in _OTHERS.items():
            if data.startswith(head):
                raise DocumentError(f"The file is named .{kind}, but it is {found}; accepted are {_ACCEPTED}.")
    document = _reader(kind)(data)
    title = document.title or PurePath(name).stem
    language = (document.language or "").replace("_", "-")
    return replace(
        document,
        title=title[:_MAX_NAME_CHARACTERS].strip(),
        author=document.author[:_MAX_NAME_CHARACTERS].strip(),
        language=language if _LANGUAGE.fullmatch(language) else None,
    )


def _reader(kind: DocumentFormat) -> Callable[[bytes], Document]:
    """Return the reader of a format. Libraries are imported for the format that needs them."""
    if kind == "epub":
        from app.books.documents.epub import read_epub

        return read_epub
    if kind == "docx":
        from app.books.documents.word import read_word

        return read_word
    if kind in ("srt", "vtt"):
        from app.books.documents.captions import read_captions

        return partial(read_captions, kind=kind)
    from app.books.documents import plain_text

    return {"txt": plain_text.read_text, "md": plain_text.read_markdown, "html": plain_text.read_page}[kind]
