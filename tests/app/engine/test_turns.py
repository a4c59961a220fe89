"""Turns of keys: none takes every place."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from app.engine.admission import Client, client
from app.engine.turns import Turns


async def work(turns: Turns, key: str | None, begun: list[str | None], go: asyncio.Event) -> None:
    client.set(None if key is None else Client(key))
    async with turns.place():
        begun.append(key)
        await go.wait()


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


async def test_work_on_the_loop_leaves_it_to_others_in_between() -> None:
    turns, done = Turns(1), list[tuple[str, float]]()

    async def keep(key: str) -> None:
        client.set(Client(key))
        await turns.pace()
        begun = time.monotonic()
        time.sleep(0.02)  # noqa: ASYNC251  (work on the loop)
        done.append((key, begun))

    tasks = [asyncio.create_task(keep(key)) for key in ("ada", "ada", "ada", "bob", "cy")]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert [key for key, _ in done] == ["ada", "bob", "cy", "ada"]
    assert all(after[1] - before[1] > 0.055 for before, after in pairwise(done)), done
    await asyncio.wait(turns._turning)
    await asyncio.sleep(0)
    assert not turns.waiting
