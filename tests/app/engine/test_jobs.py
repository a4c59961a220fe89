"""Order of jobs, as a value: no thread, no clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.engine import jobs
from models.contract import RecognitionRequest
from models.timeline import Timeline
from tests.app.standins import Ear, IdleJob

NOW = 1000.0


JobFactory = Callable[..., jobs.ModelJob[Any]]


@pytest.fixture
def make(loop: asyncio.AbstractEventLoop) -> JobFactory:
    """`make(name)`: a job; `audio` is the seconds that a stream has left, None if nothing was computed for it."""

    def made(name: str, *, audio: float | None = None, began: bool = False, at: float = NOW) -> jobs.ModelJob[Any]:
        timeline = Timeline()
        timeline.plays_until = None if audio is None else NOW + audio
        priority = jobs.Priority.FIRST_AUDIO if audio is None else jobs.Priority.CONTINUATION
        job = IdleJob(name, timeline, jobs.CancelToken(), priority, loop=loop)
        job.submitted = at
        job.items = iter(()) if began else None
        return job

    return made


def in_background(job: jobs.ModelJob[Any]) -> jobs.ModelJob[Any]:
    job.priority = jobs.Priority.BACKGROUND
    return job


def test_background_goes_last_and_alone(make: JobFactory) -> None:
    queues = jobs.Queues()
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
    assert jobs.Priority.BACKGROUND.after_first() is jobs.Priority.BACKGROUND
    assert jobs.Priority.FIRST_AUDIO.after_first() is jobs.Priority.CONTINUATION


def test_a_key_does_not_starve_the_background_of_another(make: JobFactory) -> None:
    queues = filled(*(make("eve", audio=9.0) for _ in range(4)), *(in_background(make("book")) for _ in range(3)))
    for job in (*queues.continuations, *queues.background):
        job.key = "eve" if job.model == "eve" else "alice"
    times = (0.0, 1.0, jobs.BACKGROUND_SECONDS, 2 * jobs.BACKGROUND_SECONDS - 0.1)
    taken = [queues.pop(NOW + after) for after in times]
    assert [job and job.model for job in taken] == ["book", "eve", "book", "eve"]
    # One's own listeners go first, as long as there are any.
    queues.continuations[0].key = "alice"
    assert [job and job.model for job in (queues.pop(NOW + 99), queues.pop(NOW + 99))] == ["eve", "book"]


def order(queues: jobs.Queues) -> list[str]:
    names = []
    while (job := queues.pop(NOW)) is not None:
        names.append(job.model)
    return names


def filled(*given: jobs.ModelJob[Any]) -> jobs.Queues:
    queues = jobs.Queues()
    for job in given:
        queues.push(job)
    return queues


def test_later_work_goes_by_when_it_is_needed(make: JobFactory) -> None:
    queues = filled(make("rich", audio=9), make("poor", audio=2), make("poorest", audio=1), make("poor too", audio=2))
    assert order(queues) == ["poorest", "poor", "poor too", "rich"]


def test_keys_take_turns_at_first_jobs(make: JobFactory) -> None:
    keyed = [make("eve 1"), make("eve 2", began=True), make("eve 3"), make("alice 1", began=True), make("alice 2")]
    for job in keyed:
        job.key = job.model[:3]
    assert order(filled(*keyed)) == ["eve 1", "alice 2", "eve 3", "alice 1", "eve 2"]


def test_sentences_of_one_stream_keep_their_order(make: JobFactory) -> None:
    one, two = make("one", audio=3), make("two", audio=3)
    two.timeline = one.timeline
    assert order(filled(one, two)) == ["one", "two"]


def test_a_half_done_sentence_goes_on_before_the_next_of_its_stream(make: JobFactory) -> None:
    one, two = make("one", audio=3), make("two", audio=3)
    two.timeline = one.timeline
    queues = filled(one, two)
    assert queues.pop(NOW) is one
    one.items = iter(())
    queues.push(one)
    assert order(queues) == ["one", "two"]


def test_a_half_done_sentence_gives_way_to_who_has_nothing_and_to_who_needs_it_sooner(make: JobFactory) -> None:
    half, rich, poor = make("half", audio=3, began=True), make("rich", audio=4), make("poor", audio=2)
    assert order(filled(half, rich, poor, make("new"))) == ["new", "poor", "half", "rich"]


def test_who_falls_silent_is_not_left_with_half_a_sentence(make: JobFactory) -> None:
    """Its turn among newcomers lasts until its sentence is done, or for EXCLUSIVE_SECONDS."""
    queues = filled(make("starving", audio=0), *(make(f"new{n}") for n in range(3 * jobs.NEWCOMERS_IN_A_ROW)))
    now, names = NOW, []
    while now < NOW + 2 * jobs.EXCLUSIVE_SECONDS:
        job = queues.pop(now)
        names.append(job.model)
        if job.model == "starving":
            job.items = iter(())
            queues.push(job)
            now += jobs.EXCLUSIVE_SECONDS / 4
    assert names[: jobs.NEWCOMERS_IN_A_ROW] == [f"new{n}" for n in range(jobs.NEWCOMERS_IN_A_ROW)]
    assert names[jobs.NEWCOMERS_IN_A_ROW :][:5] == ["starving"] * 4 + [f"new{jobs.NEWCOMERS_IN_A_ROW}"]


def test_a_newcomer_goes_first(make: JobFactory) -> None:
    assert order(filled(make("starving", audio=0), make("new"))) == ["new", "starving"]


def test_newcomers_do_not_starve_who_falls_silent(make: JobFactory) -> None:
    new = [make(f"new{n}") for n in range(2 * jobs.NEWCOMERS_IN_A_ROW)]
    names = order(filled(make("starving", audio=jobs.URGENT / 2), *new))
    assert names.index("starving") == jobs.NEWCOMERS_IN_A_ROW


def test_who_has_audio_waits_for_all_newcomers(make: JobFactory) -> None:
    new = [make(f"new{n}") for n in range(2 * jobs.NEWCOMERS_IN_A_ROW)]
    assert order(filled(make("listening", audio=5), *new))[-1] == "listening"


def test_a_newcomer_waits_for_one_turn_of_a_long_beginning_at_most(make: JobFactory) -> None:
    """A model may need many turns to its first sound: a paragraph of Chatterbox, say."""
    assert order(filled(make("slow", began=True), make("new"))) == ["new", "slow"]


def test_long_beginnings_and_silent_streams_take_turns(make: JobFactory) -> None:
    """A stream that never keeps up may not keep the thread, nor may a beginning without end."""
    slow, late = make("slow", began=True), make("late", audio=-5)
    queues = filled(slow, late)
    names = []
    for _ in range(6):
        job = queues.pop(NOW)
        names.append(job.model)
        queues.push(job)
    assert names.count("slow") == names.count("late") == 3


def test_text_that_nobody_hears_is_done_after_a_while(make: JobFactory) -> None:
    text = make("text", at=NOW - jobs.SILENT_START_SECONDS)
    text.priority = jobs.Priority.CONTINUATION
    queues = filled(make("listening", audio=5), text, make("starving", audio=-1))
    assert order(queues) == ["starving", "text", "listening"]


def test_a_long_recording_does_not_hold_up_a_later_one(loop: asyncio.AbstractEventLoop) -> None:
    async def begun(name: str, at: float) -> jobs.ModelJob[Any]:
        request = RecognitionRequest(np.zeros(1, np.float32))
        job = jobs.RecognitionJob(name, Ear(), request, Timeline(), jobs.CancelToken(), jobs.Priority.CONTINUATION)
        job.submitted, job.items = at, iter(())
        return job

    long = loop.run_until_complete(begun("long", NOW))
    short = loop.run_until_complete(begun("short", NOW + 10.0))
    # It had the thread for all this time: now both have turns.
    long.timeline.busy = 10.5
    turns = []
    for _ in range(4):
        job = filled(long, short).pop(NOW + 11.0)
        job.timeline.busy += 1.0
        turns.append(job.model)
    assert turns == ["short", "long", "short", "long"]


def batched(job: jobs.ModelJob[Any], key: int = 16, model: str = "m") -> jobs.ModelJob[Any]:
    """Return the job, which may be computed with two others of its key."""
    job.batch_key, job.max_batch = (model, key), 3
    return job


def joined(queues: jobs.Queues) -> list[str]:
    """Return the job whose turn it is, and those that are computed with it."""
    job = queues.pop(NOW)
    return [each.model for each in (job, *queues.take_batch(job))]


def test_newcomers_of_a_kind_are_taken_together_in_their_order(make: JobFactory) -> None:
    a, b, c, d = (batched(make(name)) for name in "abcd")
    queues = filled(a, batched(make("longer"), 32), b, make("alone"), c, d)
    assert joined(queues) == ["a", "b", "c"]
    assert joined(queues) == ["longer"]
    assert joined(queues) == ["alone"]
    assert joined(queues) == ["d"]


def test_who_is_needed_soonest_joins_first(make: JobFactory) -> None:
    left = {"rich": 9, "poor": 2, "poorest": 1, "middle": 4}
    queues = filled(*(batched(make(name, audio=audio)) for name, audio in left.items()))
    assert joined(queues) == ["poorest", "poor", "middle"]


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
