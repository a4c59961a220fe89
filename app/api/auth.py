"""Whose requests are served: API keys, and the origins of pages that open WebSockets.

A key comes as `Authorization: Bearer` (OpenAI) or `Token` (Deepgram), as `xi-api-key` (ElevenLabs), or, from a
browser's WebSocket, which can send no header, as the subprotocols `token, <key>` (Deepgram). Where a key has characters
that a subprotocol may not have, `base64url.` and its base64url stands for it. It is looked for before anything of the
request is read, at the handshake of a WebSocket.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.admission import Client, client
from app.api.respond import error_response
from app.config import SettingsError
from app.errors import AuthenticationError, CrossSiteError, ServiceError

log = logging.getLogger(__name__)

# Seconds for which the file is not looked at again.
LOOK_EVERY = 1.0
# What is shorter could be guessed.
MIN_KEY = 16
_SHA256 = "sha256:"
_BASE64 = "base64url."
_NAME = re.compile(r"[\w.-]{1,64}")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

# Without a key: what probes ask, and the pages with what they are made of. Their scripts need one for the rest.
OPEN_PATHS = frozenset({"/livez", "/readyz", "/", "/dashboard", "/docs", "/docs/messages", "/openapi.json"})
OPEN_FOLDER = "/web/"


class _Entry(BaseModel):
    """One key of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(max_length=1_000)
    characters_per_minute: int | None = Field(None, ge=0)
    streams: int | None = Field(None, ge=0)


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


def parse_keys(text: str, characters_per_minute: int = 0, streams: int = 0) -> Keys:
    """The keys of a TOML file: `name = "key"`, `name = "sha256:<hex>"`, or a table of `key`, `characters_per_minute`
    and `streams`, whose defaults the arguments are.

    Raises ValueError, which says what is wrong and quotes no key.
    """
    known: dict[bytes, Client] = {}
    for name, value in tomllib.loads(text).items():
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
            characters_per_minute if quota is None else quota,
            streams if entry.streams is None else entry.streams,
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

    def __init__(self, path: Path, characters_per_minute: int = 0, streams: int = 0) -> None:
        """Raises SettingsError, one line, for a file that cannot be used."""
        self._path = path
        self._defaults = (characters_per_minute, streams)
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
        return parse_keys(self._path.read_text(encoding="utf-8"), *self._defaults)

    def _find_version(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class Guard:
    """Lets in whoever has a key, and no page of a foreign origin to a WebSocket. `keys` None: no key is needed."""

    def __init__(self, app: ASGIApp, keys: KeyFile | None, origins: tuple[str, ...], open_metrics: bool) -> None:
        self._app = app
        self._keys = keys
        self._origins = origins
        self._open = OPEN_PATHS | {"/metrics"} if open_metrics else OPEN_PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if scope["type"] == "websocket":
                check_origin(headers, self._origins)
            if self._keys is not None and not self._is_open(scope):
                client.set(_authenticate(headers, self._keys.keys()))
        except ServiceError as error:
            await _refuse(error, scope, receive, send)
            return
        if scope["type"] == "websocket" and "token" in (name.lower() for name in scope.get("subprotocols", ())):
            send = _answering(send, next(name for name in scope["subprotocols"] if name.lower() == "token"))
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"]
        return scope["type"] == "http" and (path in self._open or path.startswith(OPEN_FOLDER))


def _authenticate(headers: Headers, keys: Keys) -> Client:
    given = list(_given(headers))
    for key in given:
        owner = keys.find(key)
        if owner is not None:
            return owner
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


def check_origin(headers: Mapping[str, str], accepted: tuple[str, ...]) -> None:
    """Raise CrossSiteError if a page of another site opens a WebSocket here: browsers ask nobody before they do.

    Clients that are no browsers send no Origin.
    """
    origin = headers.get("origin")
    if origin is None or "*" in accepted or origin.lower() in accepted:
        return
    scheme, _, host = origin.lower().partition("://")
    own = headers.get("host", "").lower()
    port = _DEFAULT_PORTS.get(scheme, "")
    if not host or host.removesuffix(port) != own.removesuffix(port):
        raise CrossSiteError(f"Pages of {origin[:100]} may not open a WebSocket here.")


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
