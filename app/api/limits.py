"""How much a WebSocket may ask of the server, whatever it speaks: messages a second, and how long it lasts.

The size of messages and silence are the surfaces' own to bound: they can say why in their protocol's words.
"""

from __future__ import annotations

import asyncio
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.admission import TokenBucket
from app.api.respond import note_error

# So many seconds' worth of messages may come at once: text that was written before the socket was open.
BURST_SECONDS = 10
# RFC 6455 section 7.4.1: the client breaks a rule of the server's.
POLICY_VIOLATION = 1008


class SocketLimits:
    """Closes a WebSocket with 1008 where its client sends too many messages, or when it has lasted long enough."""

    def __init__(self, app: ASGIApp, messages_per_second: int, session_seconds: float) -> None:
        self._app = app
        self._rate = messages_per_second
        self._seconds = session_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        bucket = TokenBucket.full(self._rate, self._rate * BURST_SECONDS, time.monotonic())
        deadline = asyncio.get_running_loop().time() + self._seconds
        closed = False

        async def close(code: str, reason: str) -> Message:
            nonlocal closed
            closed = True
            note_error(code, 408 if code == "session_timeout" else 429)
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": reason}

        async def receive_limited() -> Message:
            nonlocal bucket
            if closed:
                return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                return await close("session_timeout", f"A session lasts {self._seconds:g} seconds at most.")
            if message["type"] == "websocket.receive":
                now = time.monotonic()
                if bucket.wait(1, now) > 0:
                    return await close("too_many_messages", f"At most {self._rate} messages a second are accepted.")
                bucket = bucket.take(1, now)
            return message

        async def send_while_open(message: Message) -> None:
            if not closed:
                await send(message)
            elif message["type"] != "websocket.close":
                # What a socket that is gone raises.
                raise OSError("the socket is closed")

        await self._app(scope, receive_limited, send_while_open)
