"""API keys, and the guard before every path.

A key comes as `Authorization: Bearer` (OpenAI) or `Token` (Deepgram), as `xi-api-key` (ElevenLabs), or, from a
browser's WebSocket, which can send no header, as the subprotocols `token, <key>` (Deepgram). Where a key has characters
that a subprotocol may not have, `base64url.` and its base64url stands for it. It is looked for before anything of the
request is read, at the handshake of a WebSocket. When it is taken out of the file, what is open with it is closed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import Settings, SettingsError
from app.engine.admission import Client, client
from app.errors import AuthenticationError, ServiceError
from app.server.error_responses import error_response
from app.server.middleware.origins import Hosts, check_one_host, check_origin

log = logging.getLogger(__name__)

# Seconds for which the file is not looked at again; while something is open it is looked at so often.
LOOK_EVERY = 1.0
# What is shorter could be guessed.
MIN_KEY = 16
_SHA256 = "sha256:"
_BASE64 = "base64url."
_NAME = re.compile(r"[\w.-]{1,64}")
# Methods that only read.
_SAFE = frozenset({"GET", "HEAD"})

# Without a key: what probes ask, and the pages with what they are made of. Their scripts need one for the rest.
OPEN_PATHS = frozenset({"/livez", "/readyz", "/", "/dashboard", "/docs", "/docs/messages", "/openapi.json"})
OPEN_FOLDER = "/web/"


class _Entry(BaseModel):
    """One key of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(max_length=1_000)
    characters_per_minute: int | None = Field(None, ge=0)
    streams: int | None = Field(None, ge=0)
    voices: int | None = Field(None, ge=0)


@dataclass(frozen=True, slots=True)
class Keys:
    """SHA-256 digests of the accepted keys, with whose they are."""

    known: tuple[tuple[bytes, Client], ...]

    def find(self, key: str) -> Client | None:
        """Whose `key` it is. Takes as long for one that is nearly right as for any other."""
        digest = _digest(key)
        found = None
        for each, owner in self.known:
            # All are compared: not even which one it is shows in the time.
            if hmac.compare_digest(each, digest):
                found = owner
        return found


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
        """Those of the settings: no key has more than half of the streams, unless it is said so."""
        share = max(1, settings.max_streams // 2)
        return cls(settings.key_characters_per_minute, settings.key_streams, settings.key_voices, share)


def parse_keys(text: str, quotas: Quotas | None = None) -> Keys:
    """The keys of a TOML file: `name = "key"`, `name = "sha256:<hex>"`, or a table of `key`, `characters_per_minute`,
    `streams` and `voices`, whose defaults `quotas` has.

    Raises ValueError, which says what is wrong and quotes no key.
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
    """The keys of a file, read again when it changes. One that cannot be read leaves the keys as they were."""

    def __init__(self, path: Path, quotas: Quotas | None = None) -> None:
        """Raises SettingsError, one line, for a file that cannot be used."""
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
        """The keys as they are now, or were up to a second ago."""
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY:
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
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@dataclass(eq=False, slots=True)
class _Open:
    """A request or a socket that is served, with the key that let it in."""

    task: asyncio.Task[Any]
    key: str = field(repr=False)
    name: str
    revoked: bool = False


class OpenConnections:
    """Requests and sockets that are open with a key of `keys`. They are cancelled when their key is taken away."""

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._seen = keys.keys()
        self._open: set[_Open] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: str, name: str) -> _Open:
        """Note that the current task serves the client `name`, who has `key`; `remove` it in the end."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside of a task")
        entry = _Open(task, key, name)
        self._open.add(entry)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)
        return entry

    def remove(self, entry: _Open) -> None:
        """It is not served any more."""
        self._open.discard(entry)

    def _look(self) -> None:
        keys, self._timer = self._keys.keys(), None
        if keys is not self._seen:
            self._seen = keys
            for entry in self._open:
                owner = keys.find(entry.key)
                # Under another name it is another client's.
                if (owner is None or owner.name != entry.name) and not entry.revoked:
                    entry.revoked = True
                    entry.task.cancel()
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)


class Guard:
    """Lets in whoever has a key, asks for this server by its name, and is no page of a foreign site.

    `keys` None: no key is needed. Then, and only then, `hosts` says under which names the server may be asked: a key is
    nothing that a browser adds by itself to what a page sends.
    """

    def __init__(
        self, app: ASGIApp, keys: KeyFile | None, hosts: Hosts, origins: tuple[str, ...], open_metrics: bool
    ) -> None:
        self._app = app
        self._keys = keys
        self._connections = None if keys is None else OpenConnections(keys)
        self._hosts = hosts
        self._origins = origins
        self._open = OPEN_PATHS | {"/metrics"} if open_metrics else OPEN_PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        key = None
        try:
            check_one_host(scope, headers)
            if self._keys is None:
                self._hosts.check(headers)
            if not self._is_harmless(scope):
                check_origin(headers, self._origins)
            if self._keys is not None and not self._is_open(scope):
                key, owner = _authenticate(headers, self._keys.keys())
                client.set(owner)
        except ServiceError as error:
            await _refuse(error, scope, receive, send)
            return
        if scope["type"] == "websocket" and "token" in (name.lower() for name in scope.get("subprotocols", ())):
            send = _answering(send, next(name for name in scope["subprotocols"] if name.lower() == "token"))
        if self._connections is None or key is None:
            await self._app(scope, receive, send)
        else:
            await self._serve(self._connections, key, owner.name, scope, receive, send)

    async def _serve(
        self, connections: OpenConnections, key: str, name: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve what `key` let in, until it ends or the key is taken away."""
        begun = False

        async def send_noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] in ("http.response.start", "websocket.accept")
            await send(message)

        entry = connections.add(key, name)
        try:
            await self._app(scope, receive, send_noting)
        except asyncio.CancelledError:
            if not entry.revoked:
                raise
            entry.task.uncancel()
            log.info("the key of '%s' was taken away, and what was open with it is closed", name)
            error = AuthenticationError("The API key is not one of this server's any more.")
            if not begun:
                await _refuse(error, scope, receive, send)
            elif scope["type"] == "websocket":
                with suppress(OSError, RuntimeError):  # the client has gone meanwhile
                    await send({"type": "websocket.close", "code": error.close_code, "reason": error.message})
            # A reply that was begun can only break: the server does so when this returns without its end.
        finally:
            connections.remove(entry)

    def _is_harmless(self, scope: Scope) -> bool:
        """Whether any page may have it sent: a browser's own question, or what everybody may read.

        Other paths are not, whatever the method: a GET may have a model loaded.
        """
        if scope["type"] != "http":
            return False
        return scope["method"] == "OPTIONS" or (scope["method"] in _SAFE and self._is_open(scope))

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"]
        return scope["type"] == "http" and (path in self._open or path.startswith(OPEN_FOLDER))


def _authenticate(headers: Headers, keys: Keys) -> tuple[str, Client]:
    """The key that a request carries, and whose it is. Raises AuthenticationError."""
    given = list(_given(headers))
    for key in given:
        owner = keys.find(key)
        if owner is not None:
            return key, owner
    if given:
        raise AuthenticationError("The API key is not one of this server's.")
    raise AuthenticationError("An API key is needed: send it as 'Authorization: Bearer <key>' or 'xi-api-key: <key>'.")


def _given(headers: Headers) -> Iterator[str]:
    """The keys that a request carries."""
    scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in ("bearer", "token") and credentials.strip():
        yield credentials.strip()
    if key := headers.get("xi-api-key", "").strip():
        yield key
    protocols = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    if len(protocols) == 2 and protocols[0].lower() == "token" and protocols[1]:
        yield protocols[1]
        if protocols[1].startswith(_BASE64):
            encoded = protocols[1].removeprefix(_BASE64)
            with suppress(ValueError):
                yield base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


async def _refuse(error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": error.close_code, "reason": error.message[:120]})
        return
    # Nothing of a body was read, so the connection cannot be used again.
    await error_response(error, {"connection": "close"}, path=scope["path"])(scope, receive, send)


def _answering(send: Callable[[Message], Any], protocol: str) -> Send:
    """`send`, with the subprotocol in the answer to a handshake: browsers want one of theirs."""

    async def send_with_protocol(message: Message) -> None:
        if message["type"] == "websocket.accept" and not message.get("subprotocol"):
            message = {**message, "subprotocol": protocol}
        await send(message)

    return send_with_protocol
