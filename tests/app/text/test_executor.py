"""Work on the thread beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from app.text.executor import RoundRobinThread


async def test_work_of_one_step_is_done_alone_and_beside_the_event_loop() -> None:
    thread, here = RoundRobinThread("g2p"), threading.get_ident()
    begun, gate, done = threading.Event(), threading.Event(), list[str]()

    def long() -> int:
        begun.set()
        gate.wait(60)
        done.append("long")
        return threading.get_ident()

    def short() -> int:
        done.append("short")
        return threading.get_ident()

    try:
        assert await thread.run(short) != here
        first = asyncio.create_task(thread.run(long))
        await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(thread.run(short))
        await asyncio.sleep(0)
        gate.set()
        assert here not in (await first, await second)
        assert done[-2:] == ["long", "short"]
    finally:
        gate.set()
        thread.close()


async def test_work_that_fails_leaves_room_for_the_next() -> None:
    thread = RoundRobinThread("g2p")

    def fail() -> None:
        raise ValueError

    try:
        for _ in range(3):
            with pytest.raises(ValueError):
                await thread.run(fail)
    finally:
        thread.close()
