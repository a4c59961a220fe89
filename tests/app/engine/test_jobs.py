"""Order of jobs, as a value: no thread, no clock."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from app.engine.jobs import (
    BACKGROUND_SECONDS,
    EXCLUSIVE_SECONDS,
    NEWCOMERS_IN_A_ROW,
    SILENT_START_SECONDS,
    URGENT,
    CancelToken,
    ModelJob,
    Priority,
    Queues,
    RecognitionJob,
)
from models.contract import RecognitionRequest
from models.timeline import Timeline
from tests.app.standins import Ear, IdleJob

NOW = 1000.0


class JobFactory:
    """Factory of jobs; `audio` is the seconds that a stream has left, None if nothing was computed for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, name: str, *, audio: float | None = None, began: bool = False, at: float = NOW) -> ModelJob[Any]:
        timeline = Timeline()
        timeline.plays_until = None if audio is None else NOW + audio
        priority = Priority.FIRST_AUDIO if audio is None else Priority.CONTINUATION
        job = IdleJob(name, timeline, CancelToken(), priority, loop=self._loop)
        job.submitted = at
        job.items = iter(()) if began else None
        return job


@pytest.fixture
def make(loop: asyncio.AbstractEventLoop) -> JobFactory:
    return JobFactory(loop)


def in_background(job: ModelJob[Any]) -> ModelJob[Any]:
    job.priority = Priority.BACKGROUND
    return job


def test_background_goes_last_and_alone(make: JobFactory) -> None:
    queues = Queues()
    books = [in_background(make(name)) for name in ("first", "second")]
    for job in books:
        job.batch_key, job.max_batch = "any", 8
        queues.push(job)
    queues.push(make("late", audio=99.0))
    queues.push(make("new"))
    queues.push(make("begun", began=True))
    assert order(queues) == ["new", "begun", "late", "first", "second"]
    # One that has begun goes on before the next sentence of its book, and after whoever came meanwhile.
    begun = in_background(make("book", began=True))
    queues.push(books[0])
    queues.push(begun)
    assert bool(queues)
    assert queues.take_batch(books[1]) == []
    queues.push(make("live", audio=5.0))
    assert order(queues) == ["live", "book", "first"]
    assert Priority.BACKGROUND.after_first() is Priority.BACKGROUND
    assert Priority.FIRST_AUDIO.after_first() is Priority.CONTINUATION


def test_a_key_does_not_starve_the_background_of_another(make: JobFactory) -> None:
    queues = filled(*(make("eve", audio=9.0) for _ in range(4)), *(in_background(make("book")) for _ in range(3)))
    for job in (*queues.continuations, *queues.background):
        job.key = "eve" if job.model == "eve" else "alice"
    times = (0.0, 1.0, BACKGROUND_SECONDS, 2 * BACKGROUND_SECONDS - 0.1)
    taken = [queues.pop(NOW + after) for after in times]
    assert [job and job.model for job in taken] == ["book", "eve", "book", "eve"]
    # One's own listeners go first, as long as there are any.
    queues.continuations[0].key = "alice"
    assert [job and job.model for job in (queues.pop(NOW + 99), queues.pop(NOW + 99))] == ["eve", "book"]


def order(queues: Queues) -> list[str]:
    names = []
    while (job := queues.pop(NOW)) is not None:
        names.append(job.model)
    return names


def filled(*jobs: ModelJob[Any]) -> Queues:
    queues = Queues()
    for job in jobs:
        queues.push(job)
    return queues


def test_later_work_goes_by_when_it_is_needed(make: JobFactory) -> None:
    queues = filled(make("rich", audio=9), make("poor", audio=2), make("poorest", audio=1), make("poor too", audio=2))
    assert order(queues) == ["poorest", "poor", "poor too", "rich"]


def test_keys_take_turns_at_first_jobs(make: JobFactory) -> None:
    jobs = [make("eve 1"), make("eve 2", began=True), make("eve 3"), make("alice 1", began=True), make("alice 2")]
    for job in jobs:
        job.key = job.model[:3]
    assert order(filled(*jobs)) == ["eve 1", "alice 2", "eve 3", "alice 1", "eve 2"]


def test_sentences_of_one_stream_keep_their_order(make: JobFactory) -> None:
    one, two = make("one", audio=3), make("two", audio=3)
    two.timeline = one.timeline
    assert order(filled(one, two)) == ["one", "two"]


def test_a_half_done_sentence_goes_on_before_the_next_of_its_stream(make: JobFactory) -> None:
    one, two = make("one", audio=3), make("two", audio=3)
    two.timeline = one.timeline
    queues = filled(one, two)
    job = queues.pop(NOW)
    assert job is one
    one.items = iter(())
    queues.push(one)
    assert order(queues) == ["one", "two"]


def test_a_half_done_sentence_gives_way_to_who_has_nothing_and_to_who_needs_it_sooner(make: JobFactory) -> None:
    half = make("half", audio=3, began=True)
    assert order(filled(half, make("rich", audio=4), make("poor", audio=2), make("new"))) == [
        "new",
        "poor",
        "half",
        "rich",
    ]


def test_who_falls_silent_is_not_left_with_half_a_sentence(make: JobFactory) -> None:
    """Its turn among newcomers lasts until its sentence is done, or for EXCLUSIVE_SECONDS."""
    queues = filled(make("starving", audio=0), *(make(f"new{n}") for n in range(3 * NEWCOMERS_IN_A_ROW)))
    now, names = NOW, []
    while now < NOW + 2 * EXCLUSIVE_SECONDS:
        job = queues.pop(now)
        assert job is not None
        names.append(job.model)
        if job.model == "starving":
            job.items = iter(())
            queues.push(job)
            now += EXCLUSIVE_SECONDS / 4
    assert names[:NEWCOMERS_IN_A_ROW] == [f"new{n}" for n in range(NEWCOMERS_IN_A_ROW)]
    assert names[NEWCOMERS_IN_A_ROW:][:5] == ["starving"] * 4 + [f"new{NEWCOMERS_IN_A_ROW}"]


def test_a_newcomer_goes_first(make: JobFactory) -> None:
    assert order(filled(make("starving", audio=0), make("new"))) == ["new", "starving"]


def test_newcomers_do_not_starve_who_falls_silent(make: JobFactory) -> None:
    new = [make(f"new{n}") for n in range(2 * NEWCOMERS_IN_A_ROW)]
    names = order(filled(make("starving", audio=URGENT / 2), *new))
    assert names.index("starving") == NEWCOMERS_IN_A_ROW


def test_who_has_audio_waits_for_all_newcomers(make: JobFactory) -> None:
    new = [make(f"new{n}") for n in range(2 * NEWCOMERS_IN_A_ROW)]
    assert order(filled(make("listening", audio=5), *new))[-1] == "listening"


def test_a_newcomer_waits_for_one_turn_of_a_long_beginning_at_most(make: JobFactory) -> None:
    """A model may need many turns to its first sound: a paragraph of Chatterbox, say."""
    slow = make("slow", began=True)
    queues = filled(slow, make("new"))
    job = queues.pop(NOW)
    assert job is not None
    assert job.model == "new"


def test_long_beginnings_and_silent_streams_take_turns(make: JobFactory) -> None:
    """A stream that never keeps up may not keep the thread, nor may a beginning without end."""
    slow, late = make("slow", began=True), make("late", audio=-5)
    queues = filled(slow, late)
    names = []
    for _ in range(6):
        job = queues.pop(NOW)
        assert job is not None
        names.append(job.model)
        queues.push(job)
    assert names.count("slow") == names.count("late") == 3


def test_text_that_nobody_hears_is_done_after_a_while(make: JobFactory) -> None:
    text = make("text", at=NOW - SILENT_START_SECONDS)
    text.priority = Priority.CONTINUATION
    assert order(filled(make("listening", audio=5), text, make("starving", audio=-1))) == [
        "starving",
        "text",
        "listening",
    ]


def test_a_long_recording_does_not_hold_up_a_later_one(loop: asyncio.AbstractEventLoop) -> None:
    async def begun(name: str, at: float) -> ModelJob[Any]:
        request = RecognitionRequest(np.zeros(1, np.float32))
        job = RecognitionJob(name, Ear(), request, Timeline(), CancelToken(), Priority.CONTINUATION)
        job.submitted, job.items = at, iter(())
        return job

    long = loop.run_until_complete(begun("long", NOW))
    short = loop.run_until_complete(begun("short", NOW + 10.0))
    # It had the thread for all this time: now both have turns.
    long.timeline.busy = 10.5
    turns = []
    for _ in range(4):
        job = filled(long, short).pop(NOW + 11.0)
        assert job is not None
        job.timeline.busy += 1.0
        turns.append(job.model)
    assert turns == ["short", "long", "short", "long"]


def batched(job: ModelJob[Any], key: int = 16, model: str = "m") -> ModelJob[Any]:
    """Return the job, which may be computed with two others of its key."""
    job.batch_key, job.max_batch = (model, key), 3
    return job


def joined(queues: Queues) -> list[str]:
    """Return the job whose turn it is, and those that are computed with it."""
    job = queues.pop(NOW)
    assert job is not None
    return [each.model for each in (job, *queues.take_batch(job))]


def test_newcomers_of_a_kind_are_taken_together_in_their_order(make: JobFactory) -> None:
    queues = filled(
        batched(make("a")),
        batched(make("longer"), 32),
        batched(make("b")),
        make("alone"),
        batched(make("c")),
        batched(make("d")),
    )
    assert joined(queues) == ["a", "b", "c"]
    assert joined(queues) == ["longer"]
    assert joined(queues) == ["alone"]
    assert joined(queues) == ["d"]


def test_who_is_needed_soonest_joins_first(make: JobFactory) -> None:
    left = {"rich": 9, "poor": 2, "poorest": 1, "middle": 4}
    assert joined(filled(*(batched(make(name, audio=audio)) for name, audio in left.items()))) == [
        "poorest",
        "poor",
        "middle",
    ]


def test_a_newcomer_is_not_held_up_by_later_sentences(make: JobFactory) -> None:
    assert joined(filled(batched(make("listening", audio=3)), batched(make("new")))) == ["new"]


def test_who_gave_up_who_began_and_another_model_s_do_not_join(make: JobFactory) -> None:
    gone, closed = batched(make("gone")), batched(make("closed"))
    gone.cancelled.cancel()
    closed.abandoned = True
    others = batched(make("began", began=True)), batched(make("other"), model="n")
    queues = filled(batched(make("a")), gone, closed, *others, batched(make("b")))
    assert joined(queues) == ["a", "b"]
    # They have turns of their own, in which they are ended.
    assert {job.model for job in queues.first_audio} == {"gone", "closed", "began", "other"}
