"""Limit on the time of the event loop that the text of one socket takes, whatever the text is made of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.engine.admission import Admission, TokenBucket
from app.server.streaming.inbox import Inbox

# Share of the event loop's time that one socket's text may take, and the seconds of it that it may take at once.
# A language model's text takes a hundredth.
SHARE: Final = 0.1
BURST: Final = 0.5


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
