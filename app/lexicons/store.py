"""Lexicons on disk: files that the server's owner put there, and those that were uploaded.

The owner's are `*.pls`, `*.xml`, `*.tsv` and `*.txt` of the directory; they hold for everybody. An uploaded one is
`uploaded/<id>.json`, which is written beside its place and renamed into it. The disk is the truth: another process may
add and remove files. Methods block, and are safe on any thread.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from app.errors import InvalidLexiconError, InvalidRequestError, QuotaExceededError, StorageFullError, storage_error
from app.text.lexicon import Lexicon, LexiconEntry
from app.text.lexicon_files import MAX_BYTES, read_lexicon

log = logging.getLogger(__name__)

_SUFFIXES: Final = frozenset((".pls", ".xml", ".tsv", ".txt"))
_ID: Final = re.compile(r"lexicon_[0-9a-f]{24}")

MAX_STORED_BYTES: Final = 4 << 20
"""Bytes of one lexicon on disk: a short file may repeat a long alias for many words."""
MAX_KEY_BYTES: Final = 64 << 20
MAX_ALL_BYTES: Final = 512 << 20
MAX_KEY_SHARE: Final = 4
"""A key may have a fourth of `max_lexicons`."""
# Bytes on disk of the lexicons that stay in memory, where they take some times as much.
_CACHED_BYTES: Final = 8 << 20
# The first line of a file is shorter.
_MAX_HEAD: Final = 4_096


def is_lexicon_id(name: str) -> bool:
    """Return whether a name is one that an uploaded lexicon could have."""
    return _ID.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class StoredLexicon:
    """An uploaded lexicon of `count` entries, without them. `created` in seconds since 1970.

    `owner`: the key that made it; None: everybody's. `size`: bytes on disk.
    """

    id: str
    name: str
    created: int
    owner: str | None
    language: str | None
    count: int
    size: int


class LexiconStore:
    """Lexicons in one directory, which is made with the first upload."""

    def __init__(self, directory: Path, *, most: int) -> None:
        self.directory = directory
        self._uploaded = directory / "uploaded"
        self._most = most
        self._lock = threading.Lock()
        self._stamps: dict[str, tuple[int, int]] = {}
        self._common: tuple[Lexicon, ...] = ()
        # Lexicons that were used last, with their bytes on disk.
        self._cached: dict[str, tuple[Lexicon, int]] = {}

    def common(self) -> tuple[Lexicon, ...]:
        """Return the owner's lexicons in the order of their names. Files are read again when they change."""
        with self._lock:
            stamps = self._look()
            if stamps != self._stamps:
                found = [_read(self.directory / name) for name in sorted(stamps)]
                self._common = tuple(lexicon for lexicon in found if lexicon is not None)
                self._stamps = stamps
            return self._common

    def _look(self) -> dict[str, tuple[int, int]]:
        stamps: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if Path(entry.name).suffix.lower() in _SUFFIXES and entry.is_file():
                        status = entry.stat()
                        stamps[entry.name] = status.st_mtime_ns, status.st_size
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("the lexicons in %s cannot be read: %s", self.directory, error)
        return stamps

    def add(self, name: str, lexicon: Lexicon, owner: str | None) -> StoredLexicon:
        """Keep a lexicon.

        Raises InvalidRequestError where it is too large, QuotaExceededError or StorageFullError where there are too
        many, StorageError if it cannot be written.
        """
        head = {
            "name": name,
            "created": int(time.time()),
            "owner": owner,
            "language": lexicon.language,
            "count": len(lexicon.entries),
        }
        lines = [json.dumps(head), *(json.dumps(astuple(entry), ensure_ascii=False) for entry in lexicon.entries)]
        data = "".join(f"{line}\n" for line in lines).encode()
        if len(data) > MAX_STORED_BYTES:
            raise InvalidRequestError(
                f"The entries of the lexicon take {len(data)} bytes; at most {MAX_STORED_BYTES} are accepted."
            )
        with self._lock:
            self._check_room(owner, len(data))
            stored = StoredLexicon(f"lexicon_{secrets.token_hex(12)}", **head, size=len(data))  # type: ignore[arg-type]
            partial = self._uploaded / f"{stored.id}.partial"
            try:
                self._uploaded.mkdir(parents=True, exist_ok=True)
                with partial.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                partial.rename(self._path(stored.id))
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise storage_error("The lexicon cannot be stored", error) from error
            self._remember(stored.id, lexicon, stored.size)
            return stored

    def _check_room(self, owner: str | None, size: int) -> None:
        kept = self.lexicons()
        own = [each for each in kept if each.owner == owner]
        if owner is not None and len(own) >= max(1, self._most // MAX_KEY_SHARE):
            raise QuotaExceededError(f"This key has {len(own)} lexicons already; delete one first.")
        if owner is not None and sum(each.size for each in own) + size > MAX_KEY_BYTES:
            raise QuotaExceededError(f"The lexicons of this key take {MAX_KEY_BYTES} bytes at most; delete one first.")
        if len(kept) >= self._most:
            raise StorageFullError(f"{self._most} lexicons are kept already; delete one first.")
        if sum(each.size for each in kept) + size > MAX_ALL_BYTES:
            raise StorageFullError(f"The lexicons take {MAX_ALL_BYTES} bytes at most; delete one first.")

    def lexicons(self) -> list[StoredLexicon]:
        """Return every uploaded lexicon that can be read, the oldest first. Reads no entries."""
        result = [
            stored for path in self._uploaded.glob("lexicon_*.json") if (stored := self.get(path.stem)) is not None
        ]
        return sorted(result, key=lambda stored: (stored.created, stored.id))

    def get(self, lexicon: str) -> StoredLexicon | None:
        """Return the uploaded lexicon of that id, or None."""
        if not is_lexicon_id(lexicon):
            return None
        try:
            with self._path(lexicon).open("rb") as file:
                head = json.loads(file.readline(_MAX_HEAD))
                return StoredLexicon(lexicon, **head, size=os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            _log_damaged(lexicon, error)
            return None

    def read(self, stored: StoredLexicon) -> Lexicon | None:
        """Return the entries of an uploaded lexicon; None where they are gone or damaged."""
        if (cached := self._cached.get(stored.id)) is not None:
            return cached[0]
        try:
            with self._path(stored.id).open("rb") as file:
                file.readline()
                # Line by line: other threads have their turns.
                result = Lexicon([LexiconEntry(*json.loads(line)) for line in file], stored.language)
        except (OSError, ValueError, TypeError) as error:
            _log_damaged(stored.id, error)
            return None
        with self._lock:
            self._remember(stored.id, result, stored.size)
        return result

    def remove(self, lexicon: str) -> bool:
        """Delete an uploaded lexicon; return whether there was one. Raises StorageError."""
        if not is_lexicon_id(lexicon):
            return False
        with self._lock:
            self._cached.pop(lexicon, None)
        try:
            self._path(lexicon).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error("The lexicon cannot be deleted", error) from error
        return True

    def _remember(self, lexicon: str, entries: Lexicon, size: int) -> None:
        self._cached[lexicon] = entries, size
        while sum(size for _, size in self._cached.values()) > _CACHED_BYTES:
            del self._cached[next(iter(self._cached))]

    def _path(self, lexicon: str) -> Path:
        return self._uploaded / f"{lexicon}.json"


def _log_damaged(lexicon: str, error: Exception) -> None:
    log.warning("%s is no lexicon, or damaged: %s", lexicon, error)


def _read(path: Path) -> Lexicon | None:
    try:
        with path.open("rb") as file:
            return read_lexicon(file.read(MAX_BYTES + 1))
    except (OSError, InvalidLexiconError) as error:
        log.warning("the lexicon %s is not used: %s", path.name, error)
        return None
