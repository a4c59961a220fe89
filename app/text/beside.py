"""Text beside the event loop: on one thread, as espeak-ng is not thread-safe, or in place where that takes less."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class FrontEnd:
    """Does one thing at a time, whichever thread it does it on. Call on the event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="g2p")
        self._busy = threading.Lock()

    async def run(self, work: Callable[[], T], *, brief: bool = False) -> T:
        """What `work` returns, or raises. `brief`: it takes less than the way to the thread and back."""
        if brief and self._busy.acquire(blocking=False):
            try:
                return work()
            finally:
                self._busy.release()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._alone, work)

    def close(self) -> None:
        """End the thread; what waits for it is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _alone(self, work: Callable[[], T]) -> T:
        with self._busy:
            return work()
