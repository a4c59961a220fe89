"""Threads for work that would block the event loop. Each kind of work has its own: none waits for another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Seconds that a cancelled task waits for its work to look at `check_stopped`.
_STOP_SECONDS: Final = 2.0

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class WorkStoppedError(Exception):
    """Raised on a thread in work that nobody waits for any more."""


def check_stopped() -> None:
    """Raise WorkStoppedError if the task that waits for this work was cancelled. Long work calls this every 0.2 s."""
    event = _stop.get()
    if event is not None and event.is_set():
        raise WorkStoppedError


class Threads:
    """At most `most` threads, which are started as they are needed."""

    def __init__(self, name: str, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work` returns on a thread.

        When the task is cancelled, work that waits for a thread is dropped, and `check_stopped` ends work under way.
        """
        stop = threading.Event()
        context = copy_context()
        context.run(_stop.set, stop)
        submitted = self._pool.submit(context.run, partial(work, *args, **kwargs))
        future = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            if not submitted.cancel():
                future.add_done_callback(lambda done: done.cancelled() or done.exception())
                # Afterwards the files that the work writes can be deleted.
                await asyncio.wait({future}, timeout=_STOP_SECONDS)
            raise


REQUESTS: Final = Threads("requests", 8)
"""Short work that a live request waits for."""
JOBS: Final = Threads("jobs", 1)
"""Work of jobs, one piece after the other."""
DOCUMENTS: Final = Threads("documents", 2)
"""Reading of documents that jobs are made of: each waits for its process."""
