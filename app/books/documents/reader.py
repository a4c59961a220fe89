"""Reading of documents that strangers send, in a process of its own under limits of memory and time."""

from __future__ import annotations

import io
import logging
from typing import Final

from app.books.documents import reader_process
from app.books.documents.formats import document_format
from app.books.documents.lines import from_lines
from app.books.documents.types import Document, DocumentError
from app.isolation.process import IsolatedProcess, read_exactly

log = logging.getLogger(__name__)

MAX_BYTES: Final = 64 << 20
# Seconds by the clock. The limit on CPU time is shorter; this one ends a process that waits.
DEADLINE: Final = 240.0
# Bytes of a reply: every character takes at most 12 in JSON.
_MAX_REPLY_BYTES: Final = 256 << 20
_MAX_NAME_CHARACTERS: Final = 1_000


def read_document(
    data: bytes, name: str, *, max_bytes: int = MAX_BYTES, process: ReaderProcess | None = None
) -> Document:
    """Read a document: text, Markdown, HTML, EPUB, DOCX, SRT or VTT. Blocks for DEADLINE seconds: call it on a thread.

    Args:
        data: Bytes of the file.
        name: Its name. The ending tells the format, and the rest is the title where the document has none.
        max_bytes: Most bytes.
        process: Process that the caller may `kill` from another thread, for a reader who left; it ends here.

    Returns:
        The document.

    Raises:
        DocumentError: With the reason: an unknown ending, too many bytes, a damaged, empty or protected file, or more
            text than the limits allow.
        OSError: No process can be started, or it was killed before.
    """
    document_format(name)
    if len(data) > max_bytes:
        raise DocumentError(f"The document has {len(data)} bytes; at most {max_bytes} are accepted.")
    process = process or ReaderProcess()
    try:
        return process.read(data, name)
    finally:
        process.end()


class ReaderProcess(IsolatedProcess):
    """Process that reads one document. `kill` from another thread ends the work."""

    def __init__(self) -> None:
        super().__init__(reader_process.__file__)

    def read(self, data: bytes, name: str) -> Document:
        """Read a document, as `read_document`."""
        asked, replies = self.pipes()
        with self.deadline(DEADLINE):
            try:
                named = name.encode("utf-8", "replace")[-_MAX_NAME_CHARACTERS:]
                for part in (reader_process.REQUEST.pack(len(named), len(data)), named, data):
                    asked.write(part)
                asked.flush()
                read, size, cover_size = reader_process.REPLY.unpack(read_exactly(replies, reader_process.REPLY.size))
                if size + cover_size > _MAX_REPLY_BYTES:
                    raise EOFError(f"a reply of {size + cover_size} bytes")
                value = read_exactly(replies, size)
                cover = read_exactly(replies, cover_size)
            except (OSError, EOFError) as error:
                log.warning("a document broke its reader process: status %s, %s", self.end(), error)
                raise DocumentError(reader_process.TOO_MUCH) from error
        if not read:
            raise DocumentError(value.decode("utf-8", "replace"))
        return from_lines(io.BytesIO(value), cover or None)
