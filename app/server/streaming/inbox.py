"""Messages of a socket: read a little ahead of the work that they ask for, and no faster than their share of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Protocol, TypeVar

from starlette.types import Message

from app.engine.admission import Admission, TokenBucket
from app.server.exchange import ClientGoneError, run_until

# Messages that are read before they are carried out, and bytes of one that no other is read ahead of: there are many
# sockets.
INBOX = 4
AHEAD: Final = 65_536
# Bytes that ended sockets had received, after which what they left is collected.
COLLECT_BYTES: Final = 16_777_216
# Share of the event loop's time that one socket's text may take, and the seconds of it that it may take at once.
# A language model's text takes a hundredth.
SHARE: Final = 0.1
BURST: Final = 0.5

_T = TypeVar("_T")


class SocketClosedError(ClientGoneError):
    """Raised when either side closed the socket."""


class Readable(Protocol):
    """A socket that an Inbox reads from."""

    async def receive(self) -> Message: ...


class Inbox:
    """Queue of a socket's messages. It notices that the client leaves while other work is done."""

    _left: ClassVar = 0

    def __init__(self, socket: Readable) -> None:
        self._socket = socket
        self._messages: asyncio.Queue[Message] = asyncio.Queue(INBOX)
        self._gone = asyncio.Event()
        self._received = 0

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
            size = len(message.get("text") or message.get("bytes") or "")
            self._received += size
            if size > AHEAD:
                del message
                await self._messages.join()

    def leaves_much(self) -> bool:
        """Note that the socket ended; return whether what ended sockets received is worth a collection.

        What a socket leaves refers to itself, and Python counts objects, not their bytes.
        """
        left = Inbox._left + self._received
        Inbox._left = left % COLLECT_BYTES
        return left >= COLLECT_BYTES

    async def frame(self) -> str | bytes:
        """Wait for the next frame. Raises SocketClosedError after the last."""
        return self._read(await self._messages.get())

    def waiting(self) -> str | bytes | None:
        """Return the next frame if it is there; the one before is done. Raises SocketClosedError after the last."""
        self._messages.task_done()
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


class Throttle:
    """Budget of time for one socket's text. The text of a client that is above it is read slowly."""

    def __init__(self, inbox: Inbox, admission: Admission) -> None:
        self._inbox = inbox
        self._admission = admission
        self._bucket = TokenBucket.full(SHARE, BURST, time.monotonic())

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Count the time of the block, which must not await."""
        begun = time.thread_time()
        try:
            yield
        finally:
            self._bucket = self._bucket.take(time.thread_time() - begun, time.monotonic())

    async def wait(self, *, give_way: bool = False) -> None:
        """Wait until more text may be read. With `give_way` other tasks run first in any case.

        Raises ClientGoneError when the client leaves meanwhile, DrainingError when the server breaks streams off.
        """
        wait = self._bucket.wait(0.0, time.monotonic())
        if wait > 0:
            await self._inbox.unless_gone(asyncio.sleep(wait), self._admission.aborted())
        elif give_way:
            await asyncio.sleep(0)
