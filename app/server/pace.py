"""Pace at which the text of a socket is read. It leaves the event loop to others, whatever the text is made of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.engine.admission import Admission, TokenBucket
from app.server.disconnect import Inbox

# Of the event loop's time one socket's text may take so much, and so many seconds of it at once. A language model's
# text takes a hundredth.
SHARE: Final = 0.1
BURST: Final = 0.5


class Pace:
    """Time of the event loop that one socket's text took. A client that sends more than its share is read slowly."""

    def __init__(self, inbox: Inbox, admission: Admission) -> None:
        self._inbox = inbox
        self._admission = admission
        self._bucket = TokenBucket.full(SHARE, BURST, time.monotonic())

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Count what is done inside, which does not await."""
        begun = time.thread_time()
        try:
            yield
        finally:
            self._bucket = self._bucket.take(time.thread_time() - begun, time.monotonic())

    async def keep(self, *, turn: bool = False) -> None:
        """Wait until more may be read; with `turn` let others have theirs in any case.

        Raises SocketClosedError when the client goes meanwhile, DrainingError when the server breaks streams off.
        """
        wait = self._bucket.wait(0.0, time.monotonic())
        if wait > 0:
            await self._inbox.unless_gone(asyncio.sleep(wait), self._admission.aborted())
        elif turn:
            await asyncio.sleep(0)
