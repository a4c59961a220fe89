"""Turns of keys at work that takes as long as what a client sends makes it take."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from app.engine.admission import key_name


class Turns:
    """Places for such work. Each key has one of them at a time; on a server without keys, clients share all.

    `waiting` counts by key those who have a place or wait for one.
    """

    def __init__(self, places: int) -> None:
        self.waiting: Counter[str | None] = Counter()
        self._places = asyncio.Semaphore(places)
        self._own: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

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
