"""Turns of keys: none takes every place."""

from __future__ import annotations

import asyncio

import pytest

from app.engine.admission import Client, client
from app.engine.turns import Turns


async def work(turns: Turns, key: str | None, begun: list[str | None], go: asyncio.Event) -> None:
    client.set(None if key is None else Client(key))
    async with turns.place():
        begun.append(key)
        await go.wait()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("keys", "first"),
    [(["ada", "ada", "ada", "bob", "cy"], ["ada", "bob"]), ([None, None, None], [None, None]), (["ada"] * 3, ["ada"])],
)
async def test_a_key_has_one_place_at_a_time(keys: list[str | None], first: list[str | None]) -> None:
    turns, begun, go = Turns(2), list[str | None](), asyncio.Event()
    tasks = [asyncio.create_task(work(turns, key, begun, go)) for key in keys]
    for _ in range(10):
        await asyncio.sleep(0)
    assert begun == first
    assert turns.waiting.total() == len(keys)
    tasks[-1].cancel()
    go.set()
    await asyncio.wait(tasks)
    assert len(begun) == len(keys) - 1
    assert not turns.waiting
    assert not turns._own
