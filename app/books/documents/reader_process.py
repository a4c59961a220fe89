"""Program that reads one document for the server: native parsers read it here, where they may crash.

`app.books.documents.reader` runs this file and speaks to it through pipes. A request is REQUEST, the name and the bytes
of the document; a reply is REPLY, the lines of the document or the reason of a refusal, and the bytes of the cover.
"""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Final

from app.books.documents import formats
from app.books.documents.lines import to_lines
from app.books.documents.types import DocumentError
from app.isolation.limits import enter

# Parsers, with what they import late themselves. The server, which imports this file, has no use for them.
PARSERS: Final = (
    "app.books.documents.captions",
    "app.books.documents.epub",
    "app.books.documents.plain_text",
    "app.books.documents.word",
    "docx.opc.parts.coreprops",
)

# Size of the name and of the document, in bytes.
REQUEST: Final = struct.Struct("<QQ")
# Whether the document was read, sizes of its lines, or of the reason, and of the cover in bytes.
REPLY: Final = struct.Struct("<?QQ")
MAX_REASON: Final = 1_000
TOO_MUCH: Final = "The document cannot be read: it is damaged, or takes too much memory or time."

CPU_SECONDS: Final = 60.0
# Bytes beside those for the document itself.
MEMORY: Final = 512 << 20
MEMORY_PER_BYTE: Final = 4


def answer(name: str, data: bytes) -> tuple[bool, bytes, bytes]:
    """Return whether the document was read, its lines or the reason, and the cover."""
    try:
        document = formats.parse(data, name)
        return True, b"".join(to_lines(document)), document.cover or b""
    except DocumentError as error:
        reason = str(error)
    except Exception:
        # Every exception: a damaged file makes the libraries raise some that their documentation does not name.
        reason = TOO_MUCH
    return False, reason[:MAX_REASON].encode("utf-8", "replace"), b""


def main() -> None:
    """Answer one request."""
    for name in PARSERS:
        import_module(name)  # now: no file can be opened later
    limits = enter()
    head = limits.requests.read(REQUEST.size)
    if len(head) < REQUEST.size:
        return
    name_size, size = REQUEST.unpack(head)
    limits.begin(MEMORY + MEMORY_PER_BYTE * size, CPU_SECONDS)
    name = limits.requests.read(name_size).decode("utf-8", "replace")
    read, text, cover = answer(name, limits.requests.read(size))
    limits.replies.write(REPLY.pack(read, len(text), len(cover)) + text + cover)
    limits.replies.flush()


if __name__ == "__main__":
    main()
