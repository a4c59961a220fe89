"""Guard before every path: API keys, the server's names, and pages of other sites.

A key comes as `Authorization: Bearer` (OpenAI) or `Token` (Deepgram), as `xi-api-key` (ElevenLabs), or, from a
browser's WebSocket, which can send no header, as the subprotocols `token, <key>` (Deepgram). Where a key has characters
that a subprotocol may not have, `base64url.` and its base64url stands for it. The guard looks for the key before it
reads anything else: at the handshake of a WebSocket. When a key leaves the file, its open connections are closed.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.engine.admission import Client, client
from app.errors import AuthenticationError, ServiceError
from app.server.error_responses import error_response
from app.server.middleware import key_file
from app.server.middleware.key_file import KeyFile, Keys
from app.server.middleware.origins import Hosts, check_one_host, check_origin

log = logging.getLogger(__name__)

_BASE64 = "base64url."
# Methods that only read.
_SAFE = frozenset({"GET", "HEAD"})

# Paths without a key: probes, and the pages with their files. The scripts of a page need a key for the rest.
OPEN_PATHS = frozenset({"/livez", "/readyz", "/", "/dashboard", "/docs", "/docs/messages", "/openapi.json"})
OPEN_FOLDER = "/web/"


@dataclass(eq=False, slots=True)
class _Open:
    """Request or socket that is served, with the key that let it in."""

    task: asyncio.Task[Any]
    key: str = field(repr=False)
    name: str
    revoked: bool = False


class OpenConnections:
    """Requests and sockets that are open with a key of `keys`. They are cancelled when their key leaves the file."""

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._seen = keys.keys()
        self._open: set[_Open] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: str, name: str) -> _Open:
        """Add the current task, which serves the client `name` with `key`. `remove` it in the end."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside of a task")
        entry = _Open(task, key, name)
        self._open.add(entry)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(key_file.LOOK_EVERY, self._look)
        return entry

    def remove(self, entry: _Open) -> None:
        """Remove a request or a socket that ended."""
        self._open.discard(entry)

    def _look(self) -> None:
        keys, self._timer = self._keys.keys(), None
        if keys is not self._seen:
            self._seen = keys
            for entry in self._open:
                owner = keys.find(entry.key)
                # A key under another name belongs to another client.
                if (owner is None or owner.name != entry.name) and not entry.revoked:
                    entry.revoked = True
                    entry.task.cancel()
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(key_file.LOOK_EVERY, self._look)


class Guard:
    """Refuse requests without a key, under a name that is not this server's, or from pages of other sites.

    Args:
        app: application behind the guard.
        keys: accepted keys; None: no key is needed.
        hosts: names of this server, checked only without keys: a browser adds no key by itself to a page's requests.
        origins: origins whose pages may send requests; `*` is any.
        open_metrics: `/metrics` needs no key.
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
        """Serve a request or a socket that `key` let in, until it ends or the key leaves the file."""
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
        """Return whether any page may send this: a browser's own preflight, or a read of an open path.

        A GET of another path is not harmless: it may load a model.
        """
        if scope["type"] != "http":
            return False
        return scope["method"] == "OPTIONS" or (scope["method"] in _SAFE and self._is_open(scope))

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"]
        return scope["type"] == "http" and (path in self._open or path.startswith(OPEN_FOLDER))


def _authenticate(headers: Headers, keys: Keys) -> tuple[str, Client]:
    """Return the key of a request, and its client. Raises AuthenticationError."""
    given = list(_given(headers))
    for key in given:
        owner = keys.find(key)
        if owner is not None:
            return key, owner
    if given:
        raise AuthenticationError("The API key is not one of this server's.")
    raise AuthenticationError("An API key is needed: send it as 'Authorization: Bearer <key>' or 'xi-api-key: <key>'.")


def _given(headers: Headers) -> Iterator[str]:
    """Yield the keys that a request carries."""
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
    """Return `send` with the subprotocol in the answer to a handshake: browsers want one of theirs."""

    async def send_with_protocol(message: Message) -> None:
        if message["type"] == "websocket.accept" and not message.get("subprotocol"):
            message = {**message, "subprotocol": protocol}
        await send(message)

    return send_with_protocol
