"""Cancellation of the work for a request or a socket, when its client leaves or the server ends."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import anyio
from starlette.types import Receive

from app.errors import DrainingError

_T = TypeVar("_T")
Waiting = Coroutine[Any, Any, object]


class ClientGoneError(Exception):
    """Raised when the client closed its connection."""


async def until_gone(receive: Receive, aborted: Waiting, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`, and cancel it when the client disconnects or `aborted` ends.

    Work that is done in the same moment counts as done.
    Raises ClientGoneError when the client disconnects, DrainingError when `aborted` ends.
    """

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return await run_until(disconnected(), ClientGoneError(), aborted, work)


async def run_until(gone: Waiting, gone_error: Exception, aborted: Waiting, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`, and cancel it when `gone` or `aborted` ends.

    Args:
        gone: ends when the client leaves.
        gone_error: what to raise then.
        aborted: ends when the server breaks off its streams; DrainingError is raised then.
        work: runs in the task of the caller. If it is done in the same moment, its result counts.
    """
    stopped: list[Exception] = []
    failure: Exception | None = None
    endings = ((gone, gone_error), (aborted, DrainingError("The server is shutting down.")))

    async def watch(waiting: Waiting, error: Exception) -> None:
        # A connection that cannot be read is gone.
        with suppress(Exception):
            await waiting
        stopped.append(error)
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for ending in endings:
                group.start_soon(watch, *ending)
            try:
                return await work
            except Exception as error:
                # Raised below: the group would put it into an ExceptionGroup.
                failure = error
            finally:
                group.cancel_scope.cancel()
        raise failure or stopped[0]
    finally:
        for waiting, _ in endings:
            # One that never began to wait would warn.
            waiting.close()
