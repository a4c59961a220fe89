"""Guard before every path: API keys, the server's names, and pages of other sites.

A key comes as `Authorization: Bearer` (OpenAI) or `Token` (Deepgram), as `xi-api-key` (ElevenLabs), or, from a
browser's WebSocket, which can send no header, as the subprotocols `token, <key>` (Deepgram). Where a key has characters
that a subprotocol may not have, `base64url.` and its base64url stands for it. OpenAI's subprotocols are `realtime,
openai-insecure-api-key.<key>`. The guard looks for the key before it reads anything else: at the handshake of a
WebSocket. When a key leaves the file, its open connections are closed. A client secret stands for the key that asked
for it, at the sockets below REALTIME alone.

A page may send requests to any address without its visitor's doing. Its site is in `Origin` and `Sec-Fetch-Site`, which
no script can set. A page whose name is made to resolve to this machine (DNS rebinding) has this server's own origin for
its browser; only `Host` shows the difference.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import is_loopback
from app.engine.admission import Client, client
from app.errors import AuthenticationError, CrossSiteError, HostNotAllowedError, InvalidRequestError, ServiceError
from app.server.error_responses import error_response
from app.server.middleware.key_file import Find, KeyFile, Keys, OpenConnections
from app.server.openai.realtime.secrets import ClientSecret, read_secret

log = logging.getLogger(__name__)

_BASE64 = "base64url."
_REALTIME_KEY = "openai-insecure-api-key."
# Sockets that a client secret opens: this path, and those below it.
REALTIME = "/v1/realtime"
# Methods that only read.
_SAFE = frozenset({"GET", "HEAD"})
# Subprotocols that are answered.
_PROTOCOLS = frozenset({"token", "realtime"})

# Paths without a key: probes, and the pages with their files. The scripts of a page need a key for the rest.
OPEN_PATHS = frozenset(
    {
        "/livez",
        "/readyz",
        "/",
        "/interpret",
        "/talk",
        "/transcribe",
        "/dashboard",
        "/docs",
        "/docs/messages",
        "/openapi.json",
    }
)
OPEN_FOLDER = "/web/"

# RFC 9110 section 7.2: a name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{0,5})?")
# The public DNS has no such names: RFC 6761, RFC 6762, RFC 8375, and the reserved "internal".
_PRIVATE_SUFFIXES = (".localhost", ".local", ".home.arpa", ".internal")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Hosts:
    """Names under which a server may be asked.

    Always `localhost`, the loopback addresses, the address that it listens on, and `allowed` (`*`: all). A server that
    others reach also accepts every address, and every name that the public DNS cannot have: a page of another site
    cannot hide behind these.
    """

    def __init__(self, listening: str, allowed: Iterable[str]) -> None:
        self._names = {listening.lower(), *allowed}
        self._public = not is_loopback(listening)

    def check(self, headers: Headers) -> None:
        """Raise HostNotAllowedError if `Host` is another name, InvalidRequestError if it is malformed."""
        given = headers.get("host")
        if given is None:
            return  # HTTP/1.0, which no browser speaks
        match = _HOST.fullmatch(given)
        if match is None:
            raise InvalidRequestError("The header 'Host' is not a name or an address, and maybe a port.")
        name = (match.group(1) or match.group(2)).lower().removesuffix(".")
        if "*" in self._names or name in self._names or self._is_own(name):
            return
        raise HostNotAllowedError(
            f"This server is not asked for as '{name[:100]}': list that name in the setting 'allowed_hosts', or use "
            "its address. Without API keys, other names are refused."
        )

    def _is_own(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or (self._public and ("." not in name or name.endswith(_PRIVATE_SUFFIXES)))
        return self._public or (getattr(address, "ipv4_mapped", None) or address).is_loopback


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
        find: Find | None = None
        try:
            check_one_host(scope, headers)
            if self._keys is None:
                self._hosts.check(headers)
            if not self._is_harmless(scope):
                check_origin(headers, self._origins)
            if self._keys is not None and not self._is_open(scope):
                find, owner = _authenticate(headers, self._keys.keys(), secrets=_opens_realtime(scope))
                client.set(owner)
        except ServiceError as error:
            await _refuse(error, scope, receive, send)
            return
        if scope["type"] == "websocket":
            spoken = (name for name in scope.get("subprotocols", ()) if name.lower() in _PROTOCOLS)
            if protocol := next(spoken, None):
                send = _answering(send, protocol)
        if self._connections is None or find is None:
            await self._app(scope, receive, send)
        else:
            await self._serve(self._connections, find, owner.name, scope, receive, send)

    async def _serve(
        self, connections: OpenConnections, find: Find, name: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve a request or a socket of the client that `find` finds, until it ends or its key leaves the file."""
        begun = False

        async def send_noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] in ("http.response.start", "websocket.accept")
            await send(message)

        entry = connections.add(find, name)
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


def _authenticate(headers: Headers, keys: Keys, *, secrets: bool) -> tuple[Find, Client]:
    """Return what finds the client of a request among keys, and the client. Raises AuthenticationError.

    `secrets`: a client secret is as good as the key that asked for it.
    """
    given = list(_given(headers))
    for key in given:
        find = partial(Keys.find, key=key)
        owner = find(keys)
        if owner is None and secrets and (secret := read_secret(key)) is not None:
            find = partial(Keys.named, name=secret.owner or "")
            owner = find(keys)
        if owner is not None:
            return find, owner
    if given:
        raise AuthenticationError("The API key is not one of this server's.")
    raise AuthenticationError("An API key is needed: send it as 'Authorization: Bearer <key>' or 'xi-api-key: <key>'.")


def _opens_realtime(scope: Scope) -> bool:
    """Return whether this is the handshake of a socket that a client secret opens."""
    path: str = scope["path"]
    return scope["type"] == "websocket" and (path == REALTIME or path.startswith(REALTIME + "/"))


def client_secret(headers: Headers) -> ClientSecret | None:
    """Return the content of the client secret that a request carries, if it carries one."""
    return next(filter(None, map(read_secret, _given(headers))), None)


def _given(headers: Headers) -> Iterator[str]:
    """Yield the keys that a request carries."""
    scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in ("bearer", "token") and credentials.strip():
        yield credentials.strip()
    if key := headers.get("xi-api-key", "").strip():
        yield key
    protocols = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    for name in protocols:
        if name.startswith(_REALTIME_KEY):
            yield name.removeprefix(_REALTIME_KEY)
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


def check_one_host(scope: Scope, headers: Headers) -> None:
    """Raise InvalidRequestError unless there is one `Host` (RFC 9112 section 3.2), or none in HTTP/1.0."""
    count = len(headers.getlist("host"))
    if count > 1 or (count == 0 and scope.get("http_version") != "1.0"):
        raise InvalidRequestError("A request needs the header 'Host', once.")


def check_origin(headers: Headers, accepted: tuple[str, ...]) -> None:
    """Raise CrossSiteError if a page of another site sends this. Only browsers send the two headers.

    `accepted`: origins of pages that may send requests, in lower case; `*` is any.
    """
    origins = headers.getlist("origin")
    origin = ", ".join(origins).lower()
    if "*" in accepted or origin in accepted:
        return
    same_site = headers.get("sec-fetch-site", "none").lower() in ("same-origin", "none")
    if same_site and (not origins or _is_same(origin, headers.get("host", "").lower())):
        return
    who = f"Pages of {origin[:100]}" if origin not in ("", "null") else "Pages without an origin, such as files,"
    shown = origin[:100] or "null"
    raise CrossSiteError(f"{who} may not use this server: list '{shown}' in the setting 'cors_origins' if they may.")


def _is_same(origin: str, host: str) -> bool:
    scheme, _, own = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme, "")
    return bool(own) and own.removesuffix(port) == host.removesuffix(port)
