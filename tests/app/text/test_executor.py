"""Brief work runs in place, and never together with other work."""

from __future__ import annotations

import asyncio
import threading

from app.text.executor import FrontEnd
from app.text.phonemizer import BRIEF, Phonemizer
from app.text.text_planner import TextPlanner


def test_brief_work_is_done_in_place_unless_there_is_other_work() -> None:
    async def check() -> None:
        front_end, here = FrontEnd(), threading.get_ident()
        begun, gate, done = threading.Event(), threading.Event(), list[str]()

        def long() -> int:
            begun.set()
            gate.wait(10)
            done.append("long")
            return threading.get_ident()

        def brief() -> int:
            done.append("brief")
            return threading.get_ident()

        try:
            assert await front_end.run(brief, brief=True) == here
            assert await front_end.run(brief) != here
            first = asyncio.create_task(front_end.run(long))
            await asyncio.to_thread(begun.wait, 10)
            second = asyncio.create_task(front_end.run(brief, brief=True))
            await asyncio.sleep(0)
            gate.set()
            assert here not in (await first, await second)
            assert done[-2:] == ["long", "brief"]
            assert await front_end.run(brief, brief=True) == here
        finally:
            gate.set()
            front_end.close()

    asyncio.run(check())


def test_work_that_fails_leaves_room_for_the_next() -> None:
    async def check() -> None:
        front_end = FrontEnd()

        def fail() -> None:
            raise ValueError

        try:
            for brief in (True, False, True):
                try:
                    await front_end.run(fail, brief=brief)
                except ValueError:
                    continue
                raise AssertionError("nothing was raised")
        finally:
            front_end.close()

    asyncio.run(check())


def test_a_phonemizer_is_brief_once_it_has_spoken() -> None:
    phonemizer = Phonemizer("en-us")
    assert phonemizer.brief_characters == 0
    phonemizer.warm()
    assert phonemizer.brief_characters == BRIEF
    assert TextPlanner("en-us").brief_characters > 0
