"""Run a coroutine to its end, or until SIGINT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on an event loop of its own and return its result. Raises KeyboardInterrupt on SIGINT.

    SIGINT cancels `work` between two callbacks of the event loop. `asyncio.run` cancels inside the signal handler,
    amid whatever callback runs: that callback may then set the result of a future that is cancelled already. A second
    SIGINT raises KeyboardInterrupt at once. Call on the main thread.
    """
    interrupted = False

    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            loop.remove_signal_handler(signal.SIGINT)
            task.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise


async def shielded(work: Coroutine[Any, Any, T], seconds: float = 5.0) -> None:
    """Do some last `work` of a task that was cancelled, within so many seconds. Its errors are dropped."""
    with suppress(Exception):
        async with asyncio.timeout(seconds):
            await work
