"""Time of a session: audio in real time, with gaps, and faster than it was spoken; speech that never overlaps."""

from __future__ import annotations

import pytest

from app.interpretation.clock import MARKS, SPACING, SessionClock


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def push(clock: SessionClock, time: Time, seconds: float, takes: float) -> None:
    for _ in range(round(seconds / 0.1)):
        time.now += 0.1 * takes / seconds if seconds else 0.0
        clock.pushed(0.1)


def test_in_real_time_a_position_is_its_time(time: Time) -> None:
    clock = SessionClock(time)
    assert (clock.now(), clock.position) == (0.0, 0.0)
    push(clock, time, 5.0, 5.0)
    assert clock.position == pytest.approx(5.0)
    assert clock.now() == pytest.approx(5.0)
    for position in (0.1, 1.0, 2.25, 5.0):
        assert clock.arrival(position) == pytest.approx(position, abs=0.1)
        assert clock.moment(position) == pytest.approx(position, abs=0.1)


def test_a_client_that_pauses_moves_on_in_time(time: Time) -> None:
    clock = SessionClock(time)
    push(clock, time, 2.0, 2.0)
    time.now += 10.0
    push(clock, time, 1.0, 1.0)
    assert clock.position == pytest.approx(3.0)
    assert clock.moment(1.5) == pytest.approx(1.5, abs=0.1)
    assert clock.moment(2.5) == pytest.approx(12.5, abs=0.1)


def test_a_recording_that_comes_fast_keeps_its_own_time(time: Time) -> None:
    clock = SessionClock(time)
    push(clock, time, 60.0, 1.0)
    assert clock.now() == pytest.approx(1.0, abs=0.1)
    assert clock.moment(30.0) == pytest.approx(30.0)
    # Its audio is there since.
    assert clock.arrival(30.0) == pytest.approx(0.5, abs=0.1)


def test_speech_is_queued_and_never_overlaps(time: Time) -> None:
    clock = SessionClock(time)
    push(clock, time, 1.0, 1.0)
    assert clock.place(2.0, not_before=1.5) == 1.5
    assert clock.place(1.0, not_before=1.6) == 3.5
    assert clock.played_out == 4.5
    assert clock.queued() == pytest.approx(3.5)
    clock.drop()
    assert clock.queued() == 0.0
    assert clock.place(1.0, not_before=5.0) == 5.0
    time.now += 100.0
    clock.drop()
    assert clock.played_out == 6.0  # it was played long ago


def test_an_hour_takes_no_more_room_than_two_minutes(time: Time) -> None:
    clock = SessionClock(time)
    push(clock, time, 3_600.0, 3_600.0)
    assert len(clock._positions) == len(clock._moments) == MARKS
    oldest = clock.position - MARKS * max(SPACING, 0.1)
    assert clock.arrival(1.0) == pytest.approx(oldest, abs=0.2)
    assert clock.arrival(clock.position - 1.0) == pytest.approx(clock.position - 1.0, abs=0.1)
