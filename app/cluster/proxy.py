"""Middleware around Ray Serve's proxy: it renders the proxy's own answers as errors of the service.

Ray's proxy loads `middlewares` by name (RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH) and puts it around every request.
Replicas mark their answers. An answer without the mark is Ray's own, plain text. A stream that stops without its end
has lost its replica. The mark stays on: it tells a client which replica served it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import uvicorn.config
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import request_context
from app.config import load_settings
from app.errors import NotFoundError, SaturatedError, ServiceError, UnavailableError
from app.server.connections import ConnectionLimits, Connections, raise_open_files
from app.server.error_responses import error_response
from app.server.http_protocol import HttpProtocol
from app.server.middleware.context import request_id_of
from app.server.websocket_protocol import WebSocketProtocol

# Header with the unique id of the replica that answered.
MARK = "x-replica"
# Ray's own paths: its routes, and the health of the proxy.
RAY_PATHS = "/-/"
# One replica's answer would be wrong for several; each replica has these paths at its own port.
PER_REPLICA = frozenset({"/metrics", "/dashboard", "/dashboard/requests"})
_ID = "x-request-id"
# With the first two headers a client could stop Ray from noticing that it left, or break off its own answer. The id
# is sent on in its checked form.
_CONTROLS = frozenset({b"x-request-disconnect-disabled", b"x-request-timeout-seconds", _ID.encode()})
_ANSWERS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_DISCONNECTS = frozenset({"http.disconnect", "websocket.disconnect"})
# RFC 6455 and the IANA registry: Service Restart, Try Again Later.
_RESTART, _LATER = 1012, 1013


# Settings that apply to the proxy.
SETTINGS = (
    "max_connections",
    "head_seconds",
    "body_seconds",
    "stall_seconds",
    "messages_per_second",
)


def middlewares() -> list[Middleware]:
    """Return the middleware that Ray's proxy asks for. It sees the settings of its environment alone."""
    raise_open_files()
    settings = load_settings(None)
    connections = Connections(ConnectionLimits.of(settings))
    # Ray makes uvicorn's configuration after this, and leaves both protocols to the name "auto".
    protocols: tuple[tuple[dict[Any, Any], Any], ...] = (
        (uvicorn.config.HTTP_PROTOCOLS, HttpProtocol),
        (uvicorn.config.WS_PROTOCOLS, WebSocketProtocol),
    )
    for known, protocol in protocols:
        known["auto"] = partial(protocol, connections)
    return [Middleware(ProxyMiddleware, stall_seconds=settings.stall_seconds)]


class Marked:
    """Middleware around a replica's application that marks its answers with the replica's `name`."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app = app
        self._name = name.encode("latin-1", "replace")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_marked(message: Message) -> None:
            if message["type"] in _ANSWERS:
                message["headers"] = [*message.get("headers", ()), (MARK.encode(), self._name)]
            await send(message)

        await self._app(scope, receive, send_marked)


class ProxyMiddleware:
    """Middleware around Ray's proxy: errors in the form of each surface, and an end for every stream.

    A client that reads nothing for `stall_seconds` is dropped here: its replica does not wait for it, and cannot know.
    """

    def __init__(self, app: ASGIApp, stall_seconds: float) -> None:
        self._app = app
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"].startswith(RAY_PATHS):
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(Headers(scope=scope))
        kept = [each for each in scope["headers"] if each[0].lower() not in _CONTROLS]
        scope["headers"] = [*kept, (_ID.encode(), request_id.encode())]
        request_context.request_id.set(request_id)
        if scope["path"] in PER_REPLICA:
            error = NotFoundError(f"Each replica has {scope['path']} of its own: see the setting 'replica_port'.")
            await _answer(error, scope, receive, send)
            return
        exchange = _ProxiedExchange(scope, receive, send, self._stall_seconds)
        await self._app(scope, exchange.receive, exchange.send)
        await exchange.finish()


class _ProxiedExchange:
    """Request or socket on its way through the proxy."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stall_seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send_on = send
        self._stall_seconds = stall_seconds
        self._stalled = asyncio.Event()
        self._begun = False
        self._over = False
        # Set once Ray, and no replica, answers: the rest of its answer is not sent.
        self._refused: ServiceError | None = None

    async def receive(self) -> Message:
        """Return the next message of the client; a disconnect once it has stalled."""
        coming, stalled = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._stalled.wait())
        try:
            await asyncio.wait({coming, stalled}, return_when=asyncio.FIRST_COMPLETED)
            gone: Message = {"type": "http.disconnect"}
            if self._scope["type"] == "websocket":
                gone = {"type": "websocket.disconnect", "code": 1006}
            message = coming.result() if coming.done() else gone
        finally:
            coming.cancel()
            stalled.cancel()
        if message["type"] in _DISCONNECTS:
            self._over = True
        return message

    async def _send(self, message: Message) -> None:
        if self._stalled.is_set():
            return
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._send_on(message)
        except TimeoutError:
            self._stalled.set()

    async def send(self, message: Message) -> None:
        """Send a message of a replica, or keep back one of Ray."""
        kind = message["type"]
        if self._refused is not None:
            return
        if kind in _ANSWERS:
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            if MARK not in headers and message.get("status", 0) >= 400:
                self._refused = _translate(message["status"], headers)
                return
            self._begun = True
            if len(ids := headers.getlist(_ID)) > 1:  # Ray adds one after the service's own
                headers[_ID] = ids[0]
                message["headers"] = headers.raw
        if kind == "websocket.close" or (kind.endswith("http.response.body") and not message.get("more_body", False)):
            self._over = True
        await self._send(message)

    async def finish(self) -> None:
        """Tell the client of an error, if the proxy is done and nobody has told it."""
        if self._over or self._stalled.is_set():
            return
        if not self._begun:
            await _answer(self._refused or _lost(), self._scope, self._receive, self._send)
        elif self._scope["type"] == "websocket":
            await self._send({"type": "websocket.close", "code": _RESTART, "reason": _lost().message})
        # A reply over HTTP that was begun can only break: the server breaks it when this returns without its end.


def _lost() -> ServiceError:
    return UnavailableError("The process that served this has ended; try again.", retry_after=1)


def _translate(status: int, headers: Headers) -> ServiceError:
    """Return the error of the service for a status of Ray."""
    if status == SaturatedError.status:
        wait = headers.get("retry-after", "")
        seconds = float(wait) if wait.isdecimal() else None
        return SaturatedError(
            "Every replica is busy, and enough requests wait for one; try again.", retry_after=seconds
        )
    if status in (404, 503):
        # The application has every path: it is not there yet, or no longer.
        return UnavailableError("No replica is there; try again shortly.", retry_after=2)
    return _lost()


async def _answer(error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        extensions: Any = scope.get("extensions") or {}
        if "websocket.http.response" not in extensions:
            await send({"type": "websocket.close", "code": _LATER, "reason": error.message[:120]})
            return
    await error_response(error, {_ID: Headers(scope=scope)[_ID]}, path=scope["path"])(scope, receive, send)
