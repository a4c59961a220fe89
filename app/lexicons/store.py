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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from app.errors import InvalidRequestError, storage_error
from app.text.errors import LexiconError
from app.text.lexicon import Lexicon, LexiconEntry
from app.text.lexicon_files import MAX_BYTES, read_lexicon

log = logging.getLogger(__name__)

_SUFFIXES: Final = frozenset((".pls", ".xml", ".tsv", ".txt"))
_ID: Final = re.compile(r"lexicon_[0-9a-f]{24}")
_CACHED: Final = 64


def is_lexicon_id(name: str) -> bool:
    """Return whether a name is one that an uploaded lexicon could have."""
    return _ID.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class StoredLexicon:
    """An uploaded lexicon. `created` in seconds since 1970. `owner`: the key that made it; None: everybody's."""

    id: str
    name: str
    created: int
    owner: str | None
    lexicon: Lexicon


class LexiconStore:
    """Lexicons in one directory, which is made with the first upload."""

    def __init__(self, directory: Path, *, most: int) -> None:
        self.directory = directory
        self._uploaded = directory / "uploaded"
        self._most = most
        self._lock = threading.Lock()
        self._stamps: dict[str, tuple[int, int]] = {}
        self._common: tuple[Lexicon, ...] = ()
        self._known: dict[str, StoredLexicon] = {}

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
        """Keep a lexicon. Raises InvalidRequestError if there are too many, StorageError if it cannot be written."""
        with self._lock:
            if len(self._paths()) >= self._most:
                raise InvalidRequestError(f"{self._most} lexicons are kept already; delete one first.")
            stored = StoredLexicon(f"lexicon_{secrets.token_hex(12)}", name, int(time.time()), owner, lexicon)
            data = {
                "name": name,
                "created": stored.created,
                "owner": owner,
                "language": lexicon.language,
                "entries": [asdict(entry) for entry in lexicon.entries],
            }
            partial = self._uploaded / f"{stored.id}.partial"
            try:
                self._uploaded.mkdir(parents=True, exist_ok=True)
                with partial.open("w", encoding="utf-8") as file:
                    json.dump(data, file, ensure_ascii=False)
                    file.flush()
                    os.fsync(file.fileno())
                partial.rename(self._path(stored.id))
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise storage_error("The lexicon cannot be stored", error) from error
            self._remember(stored)
            return stored

    def lexicons(self) -> list[StoredLexicon]:
        """Return every uploaded lexicon that can be read, the oldest first."""
        found = [stored for path in self._paths() if (stored := self.get(path.stem)) is not None]
        return sorted(found, key=lambda stored: (stored.created, stored.id))

    def get(self, lexicon: str) -> StoredLexicon | None:
        """Return the uploaded lexicon of that id, or None."""
        if not is_lexicon_id(lexicon):
            return None
        path = self._path(lexicon)
        if (known := self._known.get(lexicon)) is not None and path.is_file():
            return known
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            entries = [LexiconEntry(**entry) for entry in data["entries"]]
            stored = StoredLexicon(
                lexicon, data["name"], data["created"], data["owner"], Lexicon(entries, data["language"])
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s is no lexicon, or damaged: %s", path.name, error)
            return None
        self._remember(stored)
        return stored

    def remove(self, lexicon: str) -> bool:
        """Delete an uploaded lexicon; return whether there was one. Raises StorageError."""
        if not is_lexicon_id(lexicon):
            return False
        self._known.pop(lexicon, None)
        try:
            self._path(lexicon).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error("The lexicon cannot be deleted", error) from error
        return True

    def _remember(self, stored: StoredLexicon) -> None:
        while len(self._known) >= _CACHED:
            self._known.pop(next(iter(self._known)), None)
        self._known[stored.id] = stored

    def _path(self, lexicon: str) -> Path:
        return self._uploaded / f"{lexicon}.json"

    def _paths(self) -> list[Path]:
        return [path for path in self._uploaded.glob("lexicon_*.json") if is_lexicon_id(path.stem)]


def _read(path: Path) -> Lexicon | None:
    try:
        with path.open("rb") as file:
            return read_lexicon(file.read(MAX_BYTES + 1))
    except (OSError, LexiconError) as error:
        log.warning("the lexicon %s is not used: %s", path.name, error)
        return None
