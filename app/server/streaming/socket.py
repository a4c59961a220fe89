"""SocketLoop: the one loop that admits, reads, times out, writes and closes, for every streaming protocol.

One task reads ahead, so that the loop notices a client that leaves, whatever it waits for. The caller's task carries
out the frames. Another task speaks: it writes what is computed, and waits for its writes. A client that does not read
stops the writing, that stops the speaking, and the sentences after the next two are not computed.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any, NoReturn, Protocol, TypeVar

from app.engine.admission import Slot
from app.engine.model_loader import Progress
from app.errors import DrainingError, IdleTimeoutError, ServiceError
from app.observability import metrics
from app.server.exchange import FAREWELL_SECONDS, GONE
from app.server.state import Services
from app.server.streaming.inbox import Inbox, Readable, SocketClosedError, Throttle
from app.speech.options import PreparedSpeech, SpeechOptions
from models.timeline import Timeline

# Bytes of the reason of a close frame. RFC 6455, section 5.5, allows 123.
MAX_REASON = 120
# Bytes of a message that waits for its turn: a key has many sockets, and each of them many messages.
PACED = 4_096

_T = TypeVar("_T")


class Socket(Readable, Protocol):
    """Connection that a SocketLoop serves: Starlette's WebSocket, or a stand-in for one."""

    async def send_text(self, data: str) -> None: ...

    async def send_bytes(self, data: bytes) -> None: ...

    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


class SocketLoop(ABC):
    """Loop of one client. A subclass says what a frame, the end of the server and an error mean.

    `active_at` is the monotonic time of the last frame that came or went. `surface` is the label of its metrics.
    """

    surface: metrics.SurfaceName
    # Message of the error for a client that sent nothing for too long; {seconds} are those.
    idle_message = "Nothing was received for {seconds:g} seconds."

    def __init__(self, socket: Socket, app: Services) -> None:
        self.app = app
        self.active_at = time.monotonic()
        self._socket = socket
        self._task: asyncio.Task[None] | None = None
        self._inbox = Inbox(socket)
        self.throttle = Throttle(self._inbox, app.admission)

    # The protocol.

    async def begin(self) -> None:  # noqa: B027  (most protocols have nothing to do here)
        """Do the work that comes before the first frame."""

    @abstractmethod
    async def receive(self, frame: str | bytes) -> None:
        """Carry out a frame of the client."""

    @abstractmethod
    async def drain(self) -> None:
        """Begin to end, because the server shuts down: speak the text that came, then close."""

    @abstractmethod
    async def send_error(self, error: ServiceError) -> None:
        """Tell the client of the error that ends the socket, and count it."""

    @property
    def busy(self) -> bool:
        """Whether the client waits for this side, and so may be silent."""
        return False

    # The task that speaks, and its end.

    def speaking(self) -> set[asyncio.Task[None]]:
        """Return the tasks that speak; the loop wakes when one ends."""
        return set() if self._task is None else {self._task}

    def speak(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have a task do `work`, unless it is under way. Raises the error of a task that ended."""
        self._collect()
        if self._task is None:
            self._task = asyncio.create_task(work())

    def _collect(self) -> None:
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()

    async def settle(self) -> None:
        """Forget the tasks that ended, and close if nothing is left to do. Raises the error of a task."""
        self._collect()

    async def stop(self) -> None:
        """Stop speaking. When this returns, nothing more is sent."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            self._task = None
            task.cancel()
            await asyncio.wait({task})

    async def fail(self, error: ServiceError) -> None:
        """Stop speaking, tell the client of `error` and close."""
        await self.stop()
        await self.send_error(error)
        await self.close(error.close_code, error.message)

    def note_rejected(self) -> None:
        """Count a session that is refused before anything is computed."""
        metrics.record(Timeline(), metrics.Labels("none", self.surface, True), "rejected", metrics.Playback())

    async def tick(self, now: float) -> None:
        """Act on the time `now`: a deadline came, or a task ended. Raises IdleTimeoutError."""
        seconds = self.app.settings.idle_seconds
        if now - self.active_at >= seconds:
            if not self.busy:
                raise IdleTimeoutError(self.idle_message.format(seconds=seconds))
            self.active_at = now

    def next_deadline(self) -> float:
        """Return the monotonic time at which `tick` is due."""
        return self.active_at + self.app.settings.idle_seconds

    # The loop.

    async def serve(self) -> None:
        """Serve the client until either side closes."""
        slot: Slot | None = None
        listening = asyncio.create_task(self._inbox.listen())
        try:
            try:
                slot = self.app.admission.admit()
                await self.begin()
                await self._run()
            except DrainingError as error:
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await self.fail(error)
            except ServiceError as error:
                await self.fail(error)
        except GONE:
            # The client left, or reads nothing: no message would reach it.
            pass
        finally:
            listening.cancel()
            if self._inbox.leaves_much():
                self.app.worker.free_memory()
            # Also where this task is cancelled while it ends.
            with slot or nullcontext():
                await self.stop()

    async def _run(self) -> None:
        draining = asyncio.create_task(self.app.admission.drained())
        aborted = asyncio.create_task(self.app.admission.aborted())
        receiving = asyncio.create_task(self._inbox.frame())
        drained = False
        try:
            while True:
                waiting: set[asyncio.Task[Any]] = {receiving, aborted, *self.speaking()}
                if not drained:
                    waiting.add(draining)
                patience = max(0.0, self.next_deadline() - time.monotonic())
                await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if aborted.done():
                    raise DrainingError("The server is shutting down.")
                await self.settle()
                if receiving.done():
                    await self._receive_all(receiving.result())
                    receiving = asyncio.create_task(self._inbox.frame())
                elif draining.done() and not drained:
                    drained = True
                    await self.drain()
                else:
                    await self.tick(time.monotonic())
                await self.settle()
        finally:
            for task in (receiving, aborted, draining):
                task.cancel()

    async def _receive_all(self, first: str | bytes) -> None:
        """Carry out `first` and the frames that came with it: a text and its flush often come together."""
        frame: str | bytes | None = first
        while frame is not None:
            if len(frame) > PACED:
                await self.app.turns.pace()
            self.active_at = time.monotonic()
            await self.receive(frame)
            self.active_at = time.monotonic()
            await self.settle()
            frame = self._inbox.waiting()

    async def unless_gone(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return the result of `work`.

        Cancels it and raises ClientGoneError when the client leaves, DrainingError when streams are broken off.
        """
        return await self._inbox.unless_gone(work, self.app.admission.aborted())

    async def prepare(self, options: SpeechOptions, progress: Progress | None = None) -> PreparedSpeech:
        """Return the checked `options`. Streams begin later and are checked again: here the socket can be refused.

        Raises what `SpeechService.prepare` and `unless_gone` raise, and OverloadedError.
        """
        speech = await self.unless_gone(self.app.speech.prepare(options, progress=progress))
        self.app.admission.check(speech.model)
        return speech

    # Writes. They raise TimeoutError when the client reads nothing for `stall_seconds`.

    async def send(self, frame: str | bytes) -> None:
        """Write one frame."""
        if isinstance(frame, str):
            await self._write(self._socket.send_text(frame))
        else:
            await self._write(self._socket.send_bytes(frame))

    async def close(self, code: int = 1000, reason: str = "") -> NoReturn:
        """Close the socket. Raises SocketClosedError, which ends the loop."""
        short = reason.encode("utf-8", "replace")[:MAX_REASON].decode(errors="ignore")
        await self._write(self._socket.close(code, short))
        raise SocketClosedError

    async def _write(self, writing: Awaitable[None]) -> None:
        async with asyncio.timeout(self.app.settings.stall_seconds):
            await writing
        self.active_at = time.monotonic()
