"""How long a request lives: no longer than its client, and no longer than the server lets it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive

from app.errors import DrainingError


class ClientGoneError(Exception):
    """The client closed its connection."""


async def until_gone(receive: Receive, aborted: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None]) -> None:
    """Run `work`. Cancels it and raises ClientGoneError when the client disconnects, DrainingError once `aborted`."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(receive))
    stopping = asyncio.create_task(aborted)
    try:
        await asyncio.wait({task, gone, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            raise ClientGoneError if gone.done() else DrainingError("The server is shutting down.")
        task.result()
    finally:
        for each in (task, gone, stopping):
            each.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
