"""Limits on the bodies of requests, on each and on all that are being received, and on the lifetime of a WebSocket.

Frames a second are counted where they are parsed. Each surface bounds the size of messages and silence itself: it can
tell the reason in its protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.engine.admission import client
from app.engine.turns import Turns
from app.errors import BodyTooLargeError, OverloadedError, ServiceError
from app.server.error_responses import error_response, note_error
from app.server.json_values import LARGE, MAX_VALUES, check_values

# Bodies of the largest size that may lie in memory at once, and of them those of one key.
MAX_BODIES: Final = 64
MAX_KEY_BODIES: Final = 32
# Seconds' worth of frames or events that may come at once: text that was written before the socket was open.
BURST_SECONDS = 10
# RFC 6455 section 7.4.1: the client breaks a rule of the server's.
POLICY_VIOLATION = 1008


class BodyLimit:
    """Read bodies before the application does, and refuse those above `limit` bytes with 413.

    All bodies together have a bound, too, and those of a key, above which a large one is refused with 503. Large ones
    may hold `values` of JSON, and are handed on one after the other: nothing else is done while one is parsed.
    `uploads` are paths with limits of their own, in bytes: their bodies are handed on as they come, and
    BodyTooLargeError is raised for one too long.
    """

    def __init__(self, app: ASGIApp, limit: int, uploads: Mapping[str, int], values: int = MAX_VALUES) -> None:
        self._app = app
        self._limit = limit
        self._values = values
        self._uploads = uploads
        # Bytes of bodies that are not handed on, by key.
        self._held: Counter[str | None] = Counter()
        self._turns = Turns(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        limit = self._uploads.get(scope["path"], self._limit)
        is_upload = scope["path"] in self._uploads
        try:
            if declared.isdecimal() and int(declared) > limit:
                raise _too_large(limit)
            body = b"" if is_upload else await self._read(receive)
        except ServiceError as error:
            # The rest of the body is not read, so the connection cannot be used again.
            await error_response(error, {"connection": "close"}, path=scope["path"])(scope, receive, send)
            return
        if body is None:
            return
        await self._app(scope, _counted(receive, limit) if is_upload else _whole(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """Return a whole body, or None if its client leaves. Raises BodyTooLargeError and OverloadedError."""
        body, who = bytearray(), client.get()
        key = None if who is None else who.name
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
                body += part
                self._held[key] += len(part)
                if len(body) > self._limit:
                    raise _too_large(self._limit)
                if len(body) > LARGE and self._full(key):
                    raise OverloadedError("Too many bodies are being received; try again shortly.")
                if not message.get("more_body", False):
                    if len(body) > LARGE:
                        await self._turns.pace()
                        check_values(body, self._values)
                    return bytes(body)
        finally:
            self._held[key] -= len(body)
            if not self._held[key]:
                del self._held[key]

    def _full(self, key: str | None) -> bool:
        most = MAX_BODIES if key is None else MAX_KEY_BODIES
        return self._held[key] > self._limit * most or self._held.total() > self._limit * MAX_BODIES


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is too large; at most {limit} bytes are accepted.")


def _whole(body: bytes, receive: Receive) -> Receive:
    """Return `receive` with the whole `body`, which was taken from it, before the rest."""
    taken = False

    async def receive_again() -> Message:
        nonlocal taken
        if taken:
            return await receive()
        taken = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _counted(receive: Receive, limit: int) -> Receive:
    """Return `receive`, which raises BodyTooLargeError once more than `limit` bytes of a body came."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise _too_large(limit)
        return message

    return receive_some


class SocketLimits:
    """Close a WebSocket with 1008 after `session_seconds`."""

    def __init__(self, app: ASGIApp, session_seconds: float) -> None:
        self._app = app
        self._seconds = session_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self._seconds
        closed = False

        async def receive_limited() -> Message:
            nonlocal closed
            if closed:
                return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            try:
                async with asyncio.timeout_at(deadline):
                    return await receive()
            except TimeoutError:
                closed = True
                note_error("session_timeout", 408)
                reason = f"A session lasts {self._seconds:g} seconds at most."
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})
                return {"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": reason}

        async def send_while_open(message: Message) -> None:
            if not closed:
                await send(message)
            elif message["type"] != "websocket.close":
                # A socket that is gone raises the same.
                raise OSError("the socket is closed")

        await self._app(scope, receive_limited, send_while_open)
