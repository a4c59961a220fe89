"""How long a request or a socket lives: no longer than its client, and no longer than the server lets it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from app.errors import DrainingError

# Seconds after which somebody looks whether the client is still there.
WATCH_AFTER = 0.001

_T = TypeVar("_T")


class ClientGoneError(Exception):
    """The client closed its connection."""


async def until_gone(receive: Receive, aborted: Coroutine[Any, Any, None], work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, which is cancelled where the client's going or the server's ending comes first.

    Raises ClientGoneError when the client disconnects, DrainingError once `aborted`. The work begins at once and in
    the caller's task: a task of its own would wait for its turn. Those that watch come a little later, so that they
    are not waited for either.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("until_gone runs in a task")
    before = task.cancelling()
    over, interrupted = False, False

    def interrupt(_: asyncio.Task[Any]) -> None:
        nonlocal interrupted
        # Once the last byte is written, uvicorn says that the client is gone.
        if not over and not interrupted:
            interrupted = True
            task.cancel()

    watching: list[asyncio.Task[None]] = []

    def watch() -> None:
        watching.extend((asyncio.create_task(_disconnected(receive)), asyncio.create_task(aborted)))
        for each in watching:
            each.add_done_callback(interrupt)

    begun = asyncio.get_running_loop().call_later(WATCH_AFTER, watch)
    try:
        return await work
    except asyncio.CancelledError:
        # As asyncio.timeout does: somebody else may have cancelled the task, too.
        if interrupted and task.cancelling() <= before + 1:
            raise ClientGoneError if watching[0].done() else DrainingError("The server is shutting down.") from None
        raise
    finally:
        over = True
        if interrupted:
            task.uncancel()
        begun.cancel()
        if not watching:
            aborted.close()
        for each in watching:
            each.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
