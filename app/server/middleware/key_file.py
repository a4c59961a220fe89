"""API keys of a TOML file, with the limits of each, read again when it changes, and the connections of each."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.config import Settings, SettingsError
from app.engine.admission import Client

log = logging.getLogger(__name__)

# Seconds for which the file is not looked at again.
POLL_SECONDS = 1.0
# A shorter key could be guessed.
MIN_KEY = 16
_SHA256 = "sha256:"
_NAME = re.compile(r"[\w.-]{1,64}")


class _Entry(BaseModel):
    """Entry of one key in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(max_length=1_000)
    characters_per_minute: int | None = Field(None, ge=0)
    streams: int | None = Field(None, ge=0)
    voices: int | None = Field(None, ge=0)
    admin: bool = Field(False, strict=True)


@dataclass(frozen=True, slots=True)
class Keys:
    """SHA-256 digests of the accepted keys, with their clients."""

    known: tuple[tuple[bytes, Client], ...]

    def find(self, key: str) -> Client | None:
        """Return the client of `key`, or None, in a time that does not depend on how much of a key is right."""
        digest = _digest(key)
        result = None
        for each, owner in self.known:
            # All are compared, so that the time does not show which key it is.
            if hmac.compare_digest(each, digest):
                result = owner
        return result

    def named(self, name: str) -> Client | None:
        """Return the client of that name, or None."""
        return next((owner for _, owner in self.known if owner.name == name), None)


Find = Callable[[Keys], Client | None]


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of a key whose entry names none; 0: any number.

    `streams` None: any number for the only key of a file, and `share` where there are several.
    """

    characters_per_minute: int = 0
    streams: int | None = None
    voices: int = 0
    share: int = 0

    @classmethod
    def of(cls, settings: Settings) -> Quotas:
        """Return the limits of the settings. A key has at most half of the streams unless a setting says otherwise."""
        share = max(1, settings.max_streams // 2)
        return cls(settings.key_characters_per_minute, settings.key_streams, settings.key_voices, share)


def parse_keys(text: str, quotas: Quotas | None = None) -> Keys:
    """Return the keys of a TOML file.

    An entry is `name = "key"`, `name = "sha256:<hex>"`, or a table of `key`, `characters_per_minute`, `streams` and
    `voices`, whose defaults are `quotas`, and `admin` (false). Raises ValueError, which says the fault and quotes no
    key.
    """
    quotas = quotas or Quotas()
    known: dict[bytes, Client] = {}
    entries = tomllib.loads(text)
    usual = (quotas.share if len(entries) > 1 else 0) if quotas.streams is None else quotas.streams
    for name, value in entries.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"the name {name[:64]!r} is not 1 to 64 letters, digits, dots, hyphens and underscores")
        try:
            entry = _Entry.model_validate(value if isinstance(value, Mapping) else {"key": value})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise ValueError(f"key '{name}': {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        digest = _stored_digest(name, entry.key)
        if digest in known:
            raise ValueError(f"'{name}' and '{known[digest].name}' are the same key")
        quota = entry.characters_per_minute
        known[digest] = Client(
            name,
            quotas.characters_per_minute if quota is None else quota,
            usual if entry.streams is None else entry.streams,
            quotas.voices if entry.voices is None else entry.voices,
            entry.admin,
        )
    return Keys(tuple(known.items()))


def _stored_digest(name: str, key: str) -> bytes:
    if key.startswith(_SHA256):
        digest = key.removeprefix(_SHA256)
        if not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
            raise ValueError(f"key '{name}': after 'sha256:' come 64 hexadecimal digits")
        return bytes.fromhex(digest)
    if len(key) < MIN_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"key '{name}': at least {MIN_KEY} printable ASCII characters without spaces are needed")
    return _digest(key)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


class KeyFile:
    """Keys of a file, read again when it changes. A file that cannot be read leaves the keys as they were."""

    def __init__(self, path: Path, quotas: Quotas | None = None) -> None:
        """Read the file. Raises SettingsError, one line, if it cannot be used."""
        self._path = path
        self._quotas = quotas
        self._looked = time.monotonic()
        self._version = self._find_version()
        try:
            self._keys = self._read()
        except (OSError, ValueError) as error:
            raise SettingsError(f"keys file {path}: {_reason(error)}") from None
        if not self._keys.known:
            raise SettingsError(f"keys file {path} has no keys")

    def keys(self) -> Keys:
        """Return the keys as they are now, or were up to a second ago."""
        now = time.monotonic()
        if now - self._looked >= POLL_SECONDS:
            self._looked = now
            version = self._find_version()
            if version != self._version:
                self._version = version
                try:
                    self._keys = self._read()
                except (OSError, ValueError) as error:
                    log.error("keys file %s is not used, the keys stay as they were: %s", self._path, _reason(error))
                else:
                    log.info("keys file %s was read again: %d keys", self._path, len(self._keys.known))
        return self._keys

    def _read(self) -> Keys:
        return parse_keys(self._path.read_text(encoding="utf-8"), self._quotas)

    def _find_version(self) -> tuple[int, ...] | None:
        try:
            result = self._path.stat()
        except OSError:
            return None
        return result.st_mtime_ns, result.st_size, result.st_ino


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@dataclass(eq=False, slots=True)
class _Open:
    """Request or socket that is served, and what finds its client among the keys."""

    task: asyncio.Task[Any]
    find: Find = field(repr=False)
    name: str
    revoked: bool = False


class OpenConnections:
    """Requests and sockets that are open with a key of `keys`. They are cancelled when their key leaves the file."""

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._seen = keys.keys()
        self._open: set[_Open] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, find: Find, name: str) -> _Open:
        """Add the current task, which serves the client `name`, whom `find` finds. `remove` it in the end."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside of a task")
        entry = _Open(task, find, name)
        self._open.add(entry)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)
        return entry

    def remove(self, entry: _Open) -> None:
        """Remove a request or a socket that ended."""
        self._open.discard(entry)

    def _look(self) -> None:
        keys, self._timer = self._keys.keys(), None
        if keys is not self._seen:
            self._seen = keys
            for entry in self._open:
                owner = entry.find(keys)
                # A key under another name belongs to another client.
                if (owner is None or owner.name != entry.name) and not entry.revoked:
                    entry.revoked = True
                    entry.task.cancel()
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)
