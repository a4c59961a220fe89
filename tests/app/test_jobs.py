"""Whose turn it is, as a value: no thread, no clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from app.jobs import NEWCOMERS_IN_A_ROW, UNHEARD, URGENT, CancelToken, Job, Priority, Queues
from models.timeline import Timeline

NOW = 1000.0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Makes:
    """Jobs by name; `audio` is how many seconds a stream has left, None if nothing was computed for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, name: str, *, audio: float | None = None, began: bool = False, at: float = NOW) -> Job[Any]:
        timeline = Timeline()
        timeline.plays_until = None if audio is None else NOW + audio
        results: asyncio.Queue[Any] = asyncio.Queue()
        priority = Priority.FIRST if audio is None else Priority.LATER
        job: Job[Any] = Job(
            name, lambda: iter(()), print, print, 2, timeline, CancelToken(), priority, self._loop, results, at
        )
        job.items = iter(()) if began else None
        return job


@pytest.fixture
def make(loop: asyncio.AbstractEventLoop) -> Makes:
    return Makes(loop)


def order(queues: Queues) -> list[str]:
    names = []
    while (job := queues.pop(NOW)) is not None:
        names.append(job.name)
    return names


def filled(*jobs: Job[Any]) -> Queues:
    queues = Queues()
    for job in jobs:
        queues.push(job)
    return queues


def test_later_work_goes_by_when_it_is_needed(make: Makes) -> None:
    queues = filled(make("rich", audio=9), make("poor", audio=2), make("poorest", audio=1), make("poor too", audio=2))
    assert order(queues) == ["poorest", "poor", "poor too", "rich"]


def test_sentences_of_one_stream_keep_their_order(make: Makes) -> None:
    one, two = make("one", audio=3), make("two", audio=3)
    two.timeline = one.timeline
    assert order(filled(one, two)) == ["one", "two"]


def test_a_newcomer_goes_first(make: Makes) -> None:
    assert order(filled(make("starving", audio=0), make("new"))) == ["new", "starving"]


def test_newcomers_do_not_starve_who_falls_silent(make: Makes) -> None:
    new = [make(f"new{n}") for n in range(2 * NEWCOMERS_IN_A_ROW)]
    names = order(filled(make("starving", audio=URGENT / 2), *new))
    assert names.index("starving") == NEWCOMERS_IN_A_ROW


def test_who_has_audio_waits_for_all_newcomers(make: Makes) -> None:
    new = [make(f"new{n}") for n in range(2 * NEWCOMERS_IN_A_ROW)]
    assert order(filled(make("listening", audio=5), *new))[-1] == "listening"


def test_a_newcomer_waits_for_one_turn_of_a_long_beginning_at_most(make: Makes) -> None:
    """A model that needs many turns to its first sound: a paragraph of Chatterbox, say."""
    slow = make("slow", began=True)
    queues = filled(slow, make("new"))
    job = queues.pop(NOW)
    assert job is not None
    assert job.name == "new"


def test_long_beginnings_and_silent_streams_take_turns(make: Makes) -> None:
    """Neither a stream that can never keep up nor a beginning without end may keep the thread."""
    slow, late = make("slow", began=True), make("late", audio=-5)
    queues = filled(slow, late)
    names = []
    for _ in range(6):
        job = queues.pop(NOW)
        assert job is not None
        names.append(job.name)
        queues.push(job)
    assert names.count("slow") == names.count("late") == 3


def test_text_that_nobody_hears_is_done_after_a_while(make: Makes) -> None:
    text = make("text", at=NOW - UNHEARD)
    text.priority = Priority.LATER
    assert order(filled(make("listening", audio=5), text, make("starving", audio=-1))) == [
        "starving",
        "text",
        "listening",
    ]
