"""Fair turns at work whose duration a client decides by what it sends, such as reading a large lexicon."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from app.engine.admission import key_name

# For each second that a turn keeps the event loop, others have it for so many seconds.
_REST: Final = 2.0


class Turns:
    """A bounded number of places for that work. A key takes at most one place, so that it cannot fill all of them.

    On a server without keys all clients share the places. `waiting` counts, by key, the requests that have a place or
    wait for one.
    """

    def __init__(self, places: int) -> None:
        self.waiting: Counter[str | None] = Counter()
        self._places = asyncio.Semaphore(places)
        self._own: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turning: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait until the key of the request may take a place, and keep it while the `async with` block runs."""
        key = key_name()
        self.waiting[key] += 1
        try:
            async with nullcontext() if key is None else self._own[key], self._places:
                yield
        finally:
            self.waiting[key] -= 1
            if not self.waiting[key]:
                del self.waiting[key]
                self._own.pop(key or "", None)

    async def pace(self) -> None:
        """Wait until the caller may do slow work on the event loop, which it does before its next `await`.

        The next caller then waits for _REST times as long as that work took. Without this, a hundred clients whose
        messages each take the loop 10 ms would stop it for a second.
        """
        ready = asyncio.get_running_loop().create_future()
        turn = asyncio.create_task(self._turn(ready))
        self._turning.add(turn)
        turn.add_done_callback(self._turning.discard)
        try:
            await ready
        except asyncio.CancelledError:
            turn.cancel()
            raise

    async def _turn(self, ready: asyncio.Future[None]) -> None:
        async with self.place():
            if ready.cancelled():
                return
            ready.set_result(None)
            begun = time.monotonic()
            await asyncio.sleep(0)  # the caller, which waits for `ready`, does its work now
            await asyncio.sleep(_REST * (time.monotonic() - begun))
