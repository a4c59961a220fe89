"""Limit on the lifetime of a WebSocket, for every protocol.

Frames a second are counted where they are parsed. Each surface bounds the size of messages and silence itself: it can
tell the reason in its protocol.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.error_responses import note_error

# Seconds' worth of frames or events that may come at once: text that was written before the socket was open.
BURST_SECONDS = 10
# RFC 6455 section 7.4.1: the client breaks a rule of the server's.
POLICY_VIOLATION = 1008


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
