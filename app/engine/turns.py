"""Turns of keys at work that takes as long as what a client sends makes it take."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from app.engine.admission import key_name

# Seconds for others after each second of the event loop that a turn took.
_REST: Final = 2.0


class Turns:
    """Places for such work. Each key has one of them at a time; on a server without keys, clients share all.

    `waiting` counts by key those who have a place or wait for one.
    """

    def __init__(self, places: int) -> None:
        self.waiting: Counter[str | None] = Counter()
        self._places = asyncio.Semaphore(places)
        self._own: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turning: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place of the request's key, and have it for the length of the block."""
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
        """Wait until the event loop may be kept for long: until the caller awaits, and then others have it for longer.

        Many clients, each with a message that takes the loop a hundredth of a second, would stop it for seconds.
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
            await asyncio.sleep(0)  # in which whoever waits for `ready` does its work
            await asyncio.sleep(_REST * (time.monotonic() - begun))
