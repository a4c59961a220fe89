"""Messages of a socket, read a little ahead of the work that they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from starlette.types import Message

from app.server.exchange import ClientGoneError, run_until

# Messages that are read before they are carried out.
INBOX = 4

_T = TypeVar("_T")


class SocketClosedError(ClientGoneError):
    """Raised when either side closed the socket."""


class Readable(Protocol):
    """A socket that an Inbox reads from."""

    async def receive(self) -> Message: ...


class Inbox:
    """Queue of a socket's messages. It notices that the client leaves while other work is done."""

    def __init__(self, socket: Readable) -> None:
        self._socket = socket
        self._messages: asyncio.Queue[Message] = asyncio.Queue(INBOX)
        self._gone = asyncio.Event()

    async def listen(self) -> None:
        """Read until the socket is closed. Run this in a task of its own."""
        while not self._gone.is_set():
            try:
                message = await self._socket.receive()
            except (RuntimeError, OSError):
                # This side closed the socket.
                message = {"type": "websocket.disconnect"}
            if message["type"] == "websocket.disconnect":
                self._gone.set()
            await self._messages.put(message)

    async def frame(self) -> str | bytes:
        """Wait for the next frame. Raises SocketClosedError after the last."""
        return self._read(await self._messages.get())

    def waiting(self) -> str | bytes | None:
        """Return the next frame if it is there already. Raises SocketClosedError after the last."""
        return None if self._messages.empty() else self._read(self._messages.get_nowait())

    @staticmethod
    def _read(message: Message) -> str | bytes:
        if message["type"] == "websocket.disconnect":
            raise SocketClosedError
        text: str | None = message.get("text")
        return message.get("bytes") or b"" if text is None else text

    async def unless_gone(self, work: Coroutine[Any, Any, _T], aborted: Coroutine[Any, Any, object]) -> _T:
        """Return the result of `work`, and cancel it when the client leaves or `aborted` ends.

        Raises ClientGoneError when the client leaves, DrainingError when `aborted` ends.
        """
        return await run_until(self._gone.wait(), aborted, work)
