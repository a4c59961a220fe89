"""Zip archives of strangers, read part by part within limits."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.books.documents.types import DocumentError

MAX_ENTRIES: Final = 20_000
# Bytes after decompression: of one part, and of all that are read.
MAX_PART: Final = 64 << 20
MAX_TOTAL: Final = 512 << 20
# Marks "<" of all parts: a million takes about three seconds.
MAX_TAGS: Final = 2_000_000

_ENCRYPTED: Final = 1
# NotImplementedError is one of RuntimeError.
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError)


@dataclass(slots=True)
class Archive:
    """Zip archive. Nothing of it is ever written to disk. `kind` names it in messages: "EPUB"."""

    kind: str
    _file: zipfile.ZipFile
    _left: int = MAX_TOTAL
    _tags_left: int = MAX_TAGS

    @classmethod
    def open(cls, data: bytes, kind: str) -> Archive:
        """Read the directory of an archive. Raises DocumentError: no archive, too many or too large entries."""
        try:
            file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError, EOFError, UnicodeDecodeError, NotImplementedError) as error:
            raise DocumentError(f"The file is no {kind} file: it is no zip archive, or a damaged one.") from error
        entries = file.infolist()
        if len(entries) > MAX_ENTRIES:
            raise DocumentError(f"The {kind} file has {len(entries)} entries; at most {MAX_ENTRIES} are accepted.")
        for entry in entries:
            _check(entry, kind)
        if sum(entry.file_size for entry in entries) > MAX_TOTAL:
            raise DocumentError(f"The {kind} file unpacks to more than {MAX_TOTAL >> 20} MB, which is the limit.")
        return cls(kind, file)

    def has(self, name: str) -> bool:
        """Return whether the archive has a part of this name."""
        return name in self._file.NameToInfo

    def read(self, name: str, most: int = MAX_PART) -> bytes:
        """Return the bytes of a part. Raises DocumentError: absent, damaged, or more than `most` bytes."""
        if not self.has(name):
            raise DocumentError(f"The {self.kind} file lacks its part '{name[:200]}'.")
        most = min(most, self._left)
        try:
            with self._file.open(name) as part:
                data = part.read(most + 1)
        except _DAMAGED as error:
            raise DocumentError(f"The part '{name[:200]}' of the {self.kind} file is damaged.") from error
        if len(data) > most:
            raise DocumentError(f"The part '{name[:200]}' of the {self.kind} file unpacks to too many bytes.")
        self._left -= len(data)
        return data

    def markup(self, name: str) -> bytes:
        """Return a part of XML or HTML, as `read`. Raises DocumentError also for too many tags in all."""
        data = self.read(name)
        self._tags_left -= data.count(b"<")
        if self._tags_left < 0:
            raise DocumentError(f"The {self.kind} file has more than {MAX_TAGS} tags, which is the limit.")
        return data

    def check_markup(self, names: Iterable[str]) -> None:
        """Raise DocumentError where a part declares entities, or the parts have too many tags."""
        for name in names:
            if self.has(name) and b"<!ENTITY" in self.markup(name)[:65_536].replace(b"\0", b"").upper():
                raise DocumentError(f"The part '{name}' of the {self.kind} file declares entities: not accepted.")


def _check(entry: zipfile.ZipInfo, kind: str) -> None:
    name = entry.filename
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        raise DocumentError(f"The {kind} file has an entry outside of itself: '{name[:200]}'.")
    if entry.flag_bits & _ENCRYPTED:
        raise DocumentError(f"The {kind} file is encrypted. Send it without a password.")
    if entry.file_size > MAX_PART:
        raise DocumentError(
            f"The part '{name[:200]}' of the {kind} file unpacks to more than {MAX_PART >> 20} MB, which is the limit."
        )
