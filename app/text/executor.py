"""Threads for work on text, off the event loop. The process does not wait for them when it exits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that gives others a turn at every `yield`, and returns its result."""

TIME_SLICE: Final = 0.005
"""Seconds of CPU time of one turn."""


class WorkTooLongError(Exception):
    """Work took more CPU time than its limit."""


@dataclass(slots=True, eq=False)
class _Work(Generic[T]):
    steps: Steps[T]
    result: asyncio.Future[T]
    loop: asyncio.AbstractEventLoop
    limit: float
    busy: float = 0.0
    dropped: bool = False

    def tell(self, settle: Callable[[Any], object], value: object) -> None:
        """Settle the result on the event loop, unless nobody waits for it."""

        def settle_there() -> None:
            if not self.result.done():
                settle(value)

        try:
            self.loop.call_soon_threadsafe(settle_there)
        except RuntimeError:
            self.dropped = True  # the event loop is closed


class RoundRobinThread:
    """Daemon thread that gives each piece of work TIME_SLICE seconds in turn, so that long work delays no short work.

    Work that is one step is done alone: espeak-ng is not thread-safe. If the caller of work is cancelled, the work is
    dropped at its next step. Unlike the threads of `concurrent.futures`, this one is not joined when the process exits.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[_Work[Any]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in one turn. Return its result, or raise its error."""

        def in_one_turn() -> Steps[T]:
            yield  # makes this a generator
            return work()

        return await self.run_steps(in_one_turn())

    async def run_steps(self, steps: Steps[T], limit: float = float("inf")) -> T:
        """Run `steps`. Return their result, or raise their error. Call on the event loop.

        Raises WorkTooLongError when they have taken `limit` seconds of CPU time.
        """
        loop = asyncio.get_running_loop()
        work: _Work[T] = _Work(steps, loop.create_future(), loop, limit)
        with self._changed:
            if self._closed:
                raise asyncio.CancelledError
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._waiting.append(work)
            self._changed.notify()
        try:
            return await work.result
        finally:
            work.dropped = True
            # The result's error has this frame: without the cycle all that its frames hold is freed at once.
            del work

    def close(self) -> None:
        """End the thread after its current step, and cancel the rest of the work."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._closed):
                    self._changed.wait()
                if self._closed:
                    break
                work = self._waiting.popleft()
            if self._advance(work):
                with self._changed:
                    self._waiting.append(work)
            del work  # while this thread waits, nothing of it is kept
        for work in self._waiting:
            work.tell(work.result.cancel, None)

    def _advance(self, work: _Work[Any]) -> bool:
        """Give `work` its turn. Return whether it has more to do."""
        begun = time.thread_time()
        try:
            while not work.dropped:
                next(work.steps)
                spent = time.thread_time() - begun
                if work.busy + spent > work.limit:
                    raise WorkTooLongError(f"more than {work.limit:g} seconds")
                if spent >= TIME_SLICE:
                    work.busy += spent
                    return True
            work.steps.close()
        except StopIteration as end:
            work.tell(work.result.set_result, end.value)
        except BaseException as error:
            work.steps.close()
            work.tell(work.result.set_exception, error)
            del work  # as in run_steps
        return False
