"""Context of each request: its id, read or made where it enters, sent back and logged; its wishes (RFC 7240)."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import request_context
from app.errors import DrainingError
from app.observability import logs
from app.request_context import WaitPreference
from app.server.error_responses import error_response

log = logging.getLogger("app.requests")

# Machines ask for these every few seconds: their lines would bury the others.
QUIET_PATHS = frozenset({"/livez", "/readyz", "/metrics", "/dashboard/requests"})

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
# Not in the value of a header (RFC 9110 section 5.5).
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# Messages with headers; the last is a handshake that is refused with a status of HTTP.
_ANSWERS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


# A preference without its parameters: `wait`, `wait=30` or `wait="30"`. Longer numbers are no waits.
_WAIT = re.compile(r'wait(?:\s*=\s*(?:(\d{1,9})|"(\d{1,9})"|""))?', re.IGNORECASE | re.ASCII)


def wait_preference(values: Iterable[str]) -> WaitPreference:
    """Return the preference `wait` of the headers `Prefer`: the first that can be read, as RFC 7240 section 2 says."""
    for preference in ",".join(values).split(","):
        match = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if match is not None:
            number = match.group(1) or match.group(2)
            return WaitPreference(asked=True, seconds=None if number is None else int(number))
    return WaitPreference()


def request_id_of(headers: Headers) -> str:
    """Return the client's own id of its request if it is valid, else a new one."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


class RequestContext:
    """Answer every request, and every handshake, with `x-request-id`: the client's own if it is valid, or a new one.

    Everything that is done for the request sees the id, and over HTTP the preference `wait`, in `app.request_context`.
    `preference-applied` answers where the request asked for a model. When it ends, its path and status are logged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        preference = wait_preference(headers.getlist("prefer")) if scope["type"] == "http" else WaitPreference()
        messages = _TrackedMessages(request_id_of(headers), preference, receive, send)
        # Never reset: each request has a task of its own, and later lines of the server's log belong to it, too.
        request_context.request_id.set(messages.request_id)
        request_context.traceparent.set(headers.get("traceparent"))
        if scope["type"] == "http":
            request_context.wait_preference.set(preference)
        start = time.perf_counter()
        try:
            await self._app(scope, messages.receive, messages.send)
        except asyncio.CancelledError:
            # The server is shut down while a body still comes: nobody else cancels a request's own task.
            if scope["type"] != "http" or messages.status is not None:
                raise
            refusal = error_response(DrainingError("The server is shutting down."), path=scope["path"])
            await refusal(scope, receive, messages.send)
        except Exception:
            messages.status = 500
            raise
        finally:
            logs.event(
                log,
                logging.DEBUG if scope["path"] in QUIET_PATHS else logging.INFO,
                "request",
                method=scope.get("method", "WEBSOCKET"),
                path=scope["path"][:200],
                status=messages.status,
                seconds=round(time.perf_counter() - start, 6),
            )


class _TrackedMessages:
    """Messages of one request or socket, with its id. `status`: of the answer, or the socket's close code."""

    def __init__(self, request_id: str, preference: WaitPreference, receive: Receive, send: Send) -> None:
        self.request_id = request_id
        self._preference = preference
        self.status: int | None = None
        self._receive = receive
        self._send = send

    async def send(self, message: Message) -> None:
        """Send `message`, with the id if it has headers."""
        if message["type"] in _ANSWERS:
            # A handshake's message may come without headers. A value made from a client's text must not break it.
            given = message.get("headers", ())
            message["headers"] = [(name, _CONTROL.sub(b" ", value)) for name, value in given]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            if self._preference.asked and self._preference.applied is not None:
                headers["preference-applied"] = f"wait={int(self._preference.applied)}"
        self.status = message.get("status", message.get("code", self.status))
        await self._send(message)

    async def receive(self) -> Message:
        """Return the next message, and note the close code of a socket that ends with it."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect" and self.status is None:
            self.status = message.get("code")
        return message
