"""What Ray Serve's proxy answers by itself, said as the service says it: full, gone, not there yet.

Ray's proxy loads `middlewares` by name (RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH) and puts it around every request.
Replicas mark what they answer; an answer without the mark is Ray's own, plain text, and a stream that stops without its
end has lost its replica. The mark stays on: it tells a client which replica served it.
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
from app.server.connections import Connections, Limits, raise_open_files
from app.server.error_responses import error_response
from app.server.http_protocol import HttpProtocol
from app.server.middleware.request_id import request_id_of
from app.server.websocket_protocol import WebSocketProtocol

# Which replica answered: its unique id.
MARK = "x-replica"
# Ray's own paths: its routes, and whether this proxy works.
RAY_PATHS = "/-/"
# Answered by one replica of several these would be wrong; each has them at its own port.
PER_REPLICA = frozenset({"/metrics", "/dashboard", "/dashboard/requests"})
_ID = "x-request-id"
# By these headers a client could have Ray not notice that it is gone, or break off what it reads. The id is sent
# on as it was understood.
_CONTROLS = frozenset({b"x-request-disconnect-disabled", b"x-request-timeout-seconds", _ID.encode()})
_ANSWERS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_DISCONNECTS = frozenset({"http.disconnect", "websocket.disconnect"})
# RFC 6455 and the IANA registry: Service Restart, Try Again Later.
_RESTART, _LATER = 1012, 1013


# Of the settings, those that hold here.
SETTINGS = (
    "max_connections",
    "head_seconds",
    "body_seconds",
    "stall_seconds",
    "messages_per_second",
)


def middlewares() -> list[Middleware]:
    """What Ray's proxy asks for. Of the settings it sees those of its environment."""
    raise_open_files()
    settings = load_settings(None)
    connections = Connections(Limits.of(settings))
    # Ray makes uvicorn's configuration after this, and leaves both protocols to what has that name.
    protocols: tuple[tuple[dict[Any, Any], Any], ...] = (
        (uvicorn.config.HTTP_PROTOCOLS, HttpProtocol),
        (uvicorn.config.WS_PROTOCOLS, WebSocketProtocol),
    )
    for known, protocol in protocols:
        known["auto"] = partial(protocol, connections)
    return [Middleware(Edge, stall_seconds=settings.stall_seconds)]


class Marked:
    """Put around a replica's application: says which replica answers."""

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


class Edge:
    """Around Ray's proxy: errors in the shape of each surface, and an end for every stream.

    A client that reads nothing for `stall_seconds` is dropped here: its replica does not wait for it, and cannot tell.
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
        exchange = _Exchange(scope, receive, send, self._stall_seconds)
        await self._app(scope, exchange.receive, exchange.send)
        await exchange.finish()


class _Exchange:
    """One request, or one socket, on its way through the proxy."""

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
        """What the client sends; that it is gone, once it has stalled."""
        coming, stalled = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._stalled.wait())
        try:
            await asyncio.wait({coming, stalled}, return_when=asyncio.FIRST_COMPLETED)
            message = coming.result() if coming.done() else self._gone()
        finally:
            coming.cancel()
            stalled.cancel()
        if message["type"] in _DISCONNECTS:
            self._over = True
        return message

    def _gone(self) -> Message:
        if self._scope["type"] == "websocket":
            return {"type": "websocket.disconnect", "code": 1006}
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._stalled.is_set():
            return
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._send_on(message)
        except TimeoutError:
            self._stalled.set()

    async def send(self, message: Message) -> None:
        """What a replica, or Ray, answers."""
        kind = message["type"]
        if self._refused is not None:
            return
        if kind in _ANSWERS:
            headers = Headers(raw=message.get("headers", []))
            if MARK not in headers and message.get("status", 0) >= 400:
                self._refused = _translate(message["status"], headers)
                return
            self._begun = True
            _keep_first_id(message)
        if kind == "websocket.close" or (kind.endswith("http.response.body") and not message.get("more_body", False)):
            self._over = True
        await self._send(message)

    async def finish(self) -> None:
        """The proxy is done with it; its client is told, if nobody has done so."""
        if self._over or self._stalled.is_set():
            return
        if not self._begun:
            await _answer(self._refused or _lost(), self._scope, self._receive, self._send)
        elif self._scope["type"] == "websocket":
            await self._send({"type": "websocket.close", "code": _RESTART, "reason": _lost().message})
        # A reply over HTTP that was begun can only break: the server does so when this returns without its end.


def _lost() -> ServiceError:
    return UnavailableError("The process that served this has ended; try again.", retry_after=1)


def _translate(status: int, headers: Headers) -> ServiceError:
    """What Ray means."""
    if status == SaturatedError.status:
        wait = headers.get("retry-after", "")
        seconds = float(wait) if wait.isdecimal() else None
        return SaturatedError(
            "Every replica is busy, and enough requests wait for one; try again.", retry_after=seconds
        )
    if status in (404, 503):
        # The application has every path: it is not there yet, or not any more.
        return UnavailableError("No replica is there; try again shortly.", retry_after=2)
    return _lost()


def _keep_first_id(message: Message) -> None:
    """Ray adds the request's id to that of the service, which stands before it."""
    headers = MutableHeaders(raw=list(message.get("headers", [])))
    found = headers.getlist(_ID)
    if len(found) > 1:
        headers[_ID] = found[0]
        message["headers"] = headers.raw


async def _answer(error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        extensions: Any = scope.get("extensions") or {}
        if "websocket.http.response" not in extensions:
            await send({"type": "websocket.close", "code": _LATER, "reason": error.message[:120]})
            return
    await error_response(error, {_ID: Headers(scope=scope)[_ID]}, path=scope["path"])(scope, receive, send)
