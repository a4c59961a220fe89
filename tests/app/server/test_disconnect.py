"""A request's work ends with its client, and with the server."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from app.errors import DrainingError
from app.server.disconnect import ClientGoneError, until_gone

# Seconds: before the client is watched, and while it is.
AFTER = (0, 0.004)


class Life:
    """Events that may end a piece of work, and its result."""

    def __init__(self) -> None:
        self.gone, self.aborted, self.free = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.ended = ""

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def abort(self) -> None:
        await self.aborted.wait()

    async def work(self) -> None:
        try:
            await self.free.wait()
            self.ended = "done"
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise

    async def run(self) -> None:
        await until_gone(self.receive, self.abort(), self.work())


def begin() -> tuple[Life, asyncio.Task[None]]:
    life = Life()
    return life, asyncio.create_task(life.run())


@pytest.mark.parametrize(("what", "error"), [("gone", ClientGoneError), ("aborted", DrainingError)])
def test_work_is_cancelled_by_either(what: str, error: type[Exception]) -> None:
    async def check(after: float) -> None:
        life, task = begin()
        await asyncio.sleep(after)
        getattr(life, what).set()
        with pytest.raises(error):
            await task
        assert life.ended == "cancelled"
        assert task.cancelling() == 0

    for after in AFTER:
        asyncio.run(check(after))


def test_work_that_is_done_is_done_though_the_client_goes_in_the_same_moment() -> None:
    async def check(after: float) -> None:
        life, task = begin()
        await asyncio.sleep(after)
        life.gone.set()
        life.free.set()
        await task
        # Nothing of it comes later.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert life.ended == "done"

    for after in AFTER:
        asyncio.run(check(after))


def test_who_cancels_the_whole_is_not_taken_for_the_client() -> None:
    async def check(after: float) -> None:
        life, task = begin()
        await asyncio.sleep(after)
        life.gone.set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert life.ended == "cancelled"

    for after in AFTER:
        asyncio.run(check(after))


def test_what_work_raises_comes_through() -> None:
    async def fail() -> None:
        await asyncio.sleep(0.002)
        raise ValueError("this")

    async def check() -> None:
        life = Life()
        with pytest.raises(ValueError, match="this"):
            await until_gone(life.receive, life.abort(), fail())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(check())
