"""Text beside the event loop: threads on which pieces of work take turns. No exit of the process waits for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Work that stops at every `yield`, so that others have a turn, and returns its result.
Steps = Generator[None, None, T]

# Seconds that one piece of work has at a time.
SLICE = 0.005


class WorkTooLongError(Exception):
    """Work that took more of its thread than it may."""


@dataclass(slots=True, eq=False)
class _Work(Generic[T]):
    steps: Steps[T]
    result: asyncio.Future[T]
    loop: asyncio.AbstractEventLoop
    limit: float
    busy: float = 0.0
    dropped: bool = False

    def tell(self, settle: Callable[[Any], object], value: object) -> None:
        """Have the event loop settle the result, unless nobody waits for it any more."""

        def settle_there() -> None:
            if not self.result.done():
                settle(value)

        try:
            self.loop.call_soon_threadsafe(settle_there)
        except RuntimeError:
            self.dropped = True  # the event loop is closed


class TurnThread:
    """A daemon thread on which every piece of work has SLICE seconds in turn: a long one holds up no short one.

    Work that is one step is done alone: espeak-ng is not thread-safe. Work whose caller is cancelled is dropped at its
    next step. Unlike the threads of `concurrent.futures`, this one is not joined when the process exits.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[_Work[Any]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Return, or raise, what `work` does; it runs in one go."""

        def at_one_go() -> Steps[T]:
            yield  # a step of its own, so that this is a generator
            return work()

        return await self.run_steps(at_one_go())

    async def run_steps(self, steps: Steps[T], limit: float = float("inf")) -> T:
        """Return, or raise, what `steps` does. Raises WorkTooLongError once they took `limit` seconds of CPU time.

        Call on the event loop.
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

    def close(self) -> None:
        """End the thread after the step that it does; who waits for the rest is cancelled."""
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
        for work in self._waiting:
            work.tell(work.result.cancel, None)

    def _advance(self, work: _Work[Any]) -> bool:
        """Give `work` its turn; whether it has more to do."""
        begun = time.thread_time()
        try:
            while not work.dropped:
                next(work.steps)
                spent = time.thread_time() - begun
                if work.busy + spent > work.limit:
                    raise WorkTooLongError(f"more than {work.limit:g} seconds")
                if spent >= SLICE:
                    work.busy += spent
                    return True
            work.steps.close()
        except StopIteration as end:
            work.tell(work.result.set_result, end.value)
        except BaseException as error:
            work.steps.close()
            work.tell(work.result.set_exception, error)
        return False
