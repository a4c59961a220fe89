"""Threads: each kind of work has its own, and work stops with the task that waits for it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from app.books.audiobook.chapter_file import ChapterWriter
from app.books.audiobook.container import Tags
from app.threads import DOCUMENTS, JOBS, REQUESTS, Threads, WorkStoppedError, check_stopped


async def test_work_under_way_ends_with_its_task_and_work_that_waits_is_dropped() -> None:
    threads, begun, ended = Threads("one", 1), threading.Event(), threading.Event()
    dropped: list[str] = []

    def endless() -> None:
        begun.set()
        try:
            while True:
                check_stopped()
        except WorkStoppedError:
            ended.set()
            raise

    first = asyncio.create_task(threads.run(endless))
    second = asyncio.create_task(threads.run(dropped.append, "second"))
    while not begun.is_set():  # noqa: ASYNC110 - the condition is another thread's
        await asyncio.sleep(0.01)
    for task in (second, first):
        task.cancel()
    await asyncio.wait({first, second})
    # The thread is free before the task has ended: it may delete what the work wrote.
    assert first.cancelled() and second.cancelled() and ended.is_set()
    assert await threads.run(len, "abc") == 3
    assert dropped == []


async def test_hours_of_silence_end_with_the_task(tmp_path: Path) -> None:
    begun = threading.Event()

    def write() -> None:
        with ChapterWriter(tmp_path / "a.m4a", "m4a", 24_000, title="a", tags=Tags("a", "", "en", None)) as writer:
            begun.set()
            writer.silence(48 * 3600.0)
            writer.close()

    task = asyncio.create_task(JOBS.run(write))
    while not begun.is_set():  # noqa: ASYNC110 - the condition is another thread's
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


@pytest.mark.parametrize("busy", [JOBS, DOCUMENTS])
async def test_a_request_waits_for_no_job_and_no_document(busy: Threads) -> None:
    free = threading.Event()
    waiting = [asyncio.create_task(busy.run(free.wait)) for _ in range(40)]
    try:
        await asyncio.sleep(0.05)
        assert await REQUESTS.run(len, "abc") == 3
    finally:
        free.set()
    await asyncio.gather(*waiting)
