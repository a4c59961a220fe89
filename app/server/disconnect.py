"""How long a request or a socket lives: no longer than its client, and no longer than the server lets it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from starlette.types import Message, Receive

from app.errors import DrainingError

# Messages of a socket that are read before they are carried out.
INBOX = 4
# Seconds after which somebody looks whether the client is still there.
WATCH_AFTER = 0.001

_T = TypeVar("_T")


class ClientGoneError(Exception):
    """The client closed its connection."""


class SocketClosedError(Exception):
    """The socket is closed, by either side."""


async def until_gone(receive: Receive, aborted: Coroutine[Any, Any, None], work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, which is cancelled where the client's going or the server's ending comes first.

    Raises ClientGoneError when the client disconnects, DrainingError once `aborted`. The work begins at once and in
    the caller's task: a task of its own would wait for its turn. Those that watch come a little later, so that they
    are not waited for either.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("until_gone runs in a task")
    before = task.cancelling()
    over, interrupted = False, False

    def interrupt(_: asyncio.Task[Any]) -> None:
        nonlocal interrupted
        # Once the last byte is written, uvicorn says that the client is gone.
        if not over and not interrupted:
            interrupted = True
            task.cancel()

    watching: list[asyncio.Task[None]] = []

    def watch() -> None:
        watching.extend((asyncio.create_task(_disconnected(receive)), asyncio.create_task(aborted)))
        for each in watching:
            each.add_done_callback(interrupt)

    begun = asyncio.get_running_loop().call_later(WATCH_AFTER, watch)
    try:
        return await work
    except asyncio.CancelledError:
        # As asyncio.timeout does: somebody else may have cancelled the task, too.
        if interrupted and task.cancelling() <= before + 1:
            raise ClientGoneError if watching[0].done() else DrainingError("The server is shutting down.") from None
        raise
    finally:
        over = True
        if interrupted:
            task.uncancel()
        begun.cancel()
        if not watching:
            aborted.close()
        for each in watching:
            each.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unless(
    work: Coroutine[Any, Any, _T],
    going: Coroutine[Any, Any, Any],
    aborted: Coroutine[Any, Any, None],
    gone_error: type[Exception],
) -> _T:
    """The result of `work`, which is cancelled where the client's `going` or the server's ending comes first."""
    task, gone, stopping = asyncio.create_task(work), asyncio.create_task(going), asyncio.create_task(aborted)
    try:
        await asyncio.wait({task, gone, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise gone_error if gone.done() else DrainingError("The server is shutting down.")
    finally:
        for each in (task, gone, stopping):
            each.cancel()
        await asyncio.wait({task})


class Listening(Protocol):
    """What an Inbox needs of a socket."""

    async def receive(self) -> Message: ...


class Inbox:
    """What comes over a socket, read a little ahead: the client's going is noticed while something else is done."""

    def __init__(self, socket: Listening) -> None:
        self._socket = socket
        self._messages: asyncio.Queue[Message] = asyncio.Queue(INBOX)
        self._gone = asyncio.Event()

    async def listen(self) -> None:
        """Read until the socket is closed; a task of its own."""
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
        """The next frame. Raises SocketClosedError after the last."""
        return self._read(await self._messages.get())

    def waiting(self) -> str | bytes | None:
        """The next frame if it is there already. Raises SocketClosedError after the last."""
        return None if self._messages.empty() else self._read(self._messages.get_nowait())

    @staticmethod
    def _read(message: Message) -> str | bytes:
        if message["type"] == "websocket.disconnect":
            raise SocketClosedError
        text: str | None = message.get("text")
        return message.get("bytes") or b"" if text is None else text

    async def unless_gone(self, work: Coroutine[Any, Any, _T], aborted: Coroutine[Any, Any, None]) -> _T:
        """Run `work`. Cancels it and raises SocketClosedError when the client goes, DrainingError once `aborted`."""
        return await _unless(work, self._gone.wait(), aborted, SocketClosedError)
