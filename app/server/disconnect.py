"""Cancellation of the work for a request or a socket, when its client leaves or the server ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import anyio
from starlette.types import Message, Receive

from app.errors import DrainingError

# Messages of a socket that are read before they are carried out.
INBOX = 4

_T = TypeVar("_T")
Waiting = Coroutine[Any, Any, object]


class ClientGoneError(Exception):
    """Raised when the client closed its connection."""


class SocketClosedError(Exception):
    """Raised when either side closed the socket."""


async def until_gone(receive: Receive, aborted: Waiting, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`, and cancel it when the client disconnects or `aborted` ends.

    Work that is done in the same moment counts as done.
    Raises ClientGoneError when the client disconnects, DrainingError when `aborted` ends.
    """

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return await _run_until(disconnected(), ClientGoneError(), aborted, work)


async def _run_until(gone: Waiting, gone_error: Exception, aborted: Waiting, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`, and cancel it when `gone` or `aborted` ends: then raise the error for that."""
    stopped: list[Exception] = []
    failure: Exception | None = None
    endings = ((gone, gone_error), (aborted, DrainingError("The server is shutting down.")))

    async def watch(waiting: Waiting, error: Exception) -> None:
        # A connection that cannot be read is gone.
        with suppress(Exception):
            await waiting
        stopped.append(error)
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for ending in endings:
                group.start_soon(watch, *ending)
            try:
                return await work
            except Exception as error:
                # Raised below: the group would put it into an ExceptionGroup.
                failure = error
            finally:
                group.cancel_scope.cancel()
        raise failure or stopped[0]
    finally:
        for waiting, _ in endings:
            # One that never began to wait would warn.
            waiting.close()


class Listening(Protocol):
    """Socket that an Inbox reads."""

    async def receive(self) -> Message: ...


class Inbox:
    """Messages of a socket, read a little ahead: so the end of the socket is noticed while something else is done."""

    def __init__(self, socket: Listening) -> None:
        self._socket = socket
        self._messages: asyncio.Queue[Message] = asyncio.Queue(INBOX)
        self._gone = asyncio.Event()

    async def listen(self) -> None:
        """Read until the socket is closed. Run it in a task of its own."""
        while not self._gone.is_set():
            try:
                message = await self._socket.receive()
            except (RuntimeError, OSError):
                # Closed by this side.
                message = {"type": "websocket.disconnect"}
            if message["type"] == "websocket.disconnect":
                self._gone.set()
            await self._messages.put(message)

    async def frame(self) -> str | bytes:
        """Return the next frame. Raises SocketClosedError after the last."""
        return self._read(await self._messages.get())

    def waiting(self) -> str | bytes | None:
        """Return the next frame if it is there, else None. Raises SocketClosedError after the last."""
        return None if self._messages.empty() else self._read(self._messages.get_nowait())

    @staticmethod
    def _read(message: Message) -> str | bytes:
        if message["type"] == "websocket.disconnect":
            raise SocketClosedError
        text: str | None = message.get("text")
        return message.get("bytes") or b"" if text is None else text

    async def unless_gone(self, work: Coroutine[Any, Any, _T], aborted: Waiting) -> _T:
        """Return the result of `work`, and cancel it when the client leaves or `aborted` ends.

        Raises SocketClosedError when the client leaves, DrainingError when `aborted` ends.
        """
        return await _run_until(self._gone.wait(), SocketClosedError(), aborted, work)
