"""Quotas and predicted load, as values: times are given, nothing waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.admission import Admission, Client, RealTimeFactors, TokenBucket
from app.errors import OverloadedError, QuotaExceededError


def test_a_bucket_refills_with_time_and_not_beyond_its_size() -> None:
    bucket = TokenBucket.full(rate=2.0, size=10.0, now=100.0)
    bucket = bucket.take(10, 100.0)
    assert bucket.wait(4, 100.0) == 2.0
    assert bucket.wait(4, 101.0) == 1.0
    assert bucket.wait(4, 102.0) == 0.0
    later = bucket.take(4, 1000.0)
    assert later.wait(6, 1000.0) == 0.0
    assert later.wait(7, 1000.0) == 0.5


def test_more_than_the_size_is_taken_from_a_full_bucket_and_paid_for_afterwards() -> None:
    bucket = TokenBucket.full(rate=1.0, size=10.0, now=0.0)
    assert bucket.wait(25, 0.0) == 0.0
    bucket = bucket.take(25, 0.0)
    assert bucket.wait(1, 0.0) == 16.0
    assert bucket.wait(25, 0.0) == 25.0


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 20)), max_size=60))
def test_no_way_of_asking_gets_more_than_the_rate(asks: list[tuple[float, int]]) -> None:
    bucket, now, taken = TokenBucket.full(3.0, 10.0, 0.0), 0.0, 0
    for pause, amount in asks:
        now += pause
        if bucket.wait(amount, now) == 0.0:
            bucket = bucket.take(amount, now)
            taken += amount
    # The last one may be in debt.
    assert taken <= 10.0 + 3.0 * now + 20


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket.full(1.0, 10.0, 100.0).take(10, 100.0).take(0, 50.0)
    assert bucket.wait(5, 100.0) == 5.0


def test_characters_are_counted_by_key() -> None:
    admission = Admission()
    ada, bob = Client("ada", characters_per_minute=60), Client("bob", characters_per_minute=60)
    admission.charge(ada, 60, 0.0)
    with pytest.raises(QuotaExceededError) as caught:
        admission.charge(ada, 10, 5.0)
    assert caught.value.headers() == {"retry-after": "5", "retry-after-ms": "5000"}
    admission.charge(bob, 60, 5.0)
    # A refused amount is not taken.
    admission.charge(ada, 10, 10.0)


def test_nothing_is_free_even_for_who_is_in_debt() -> None:
    admission, ada = Admission(), Client("ada", characters_per_minute=60)
    admission.charge(ada, 90, 0.0)
    # Told how long the debt lasts, a client would come back too early with what it has to say.
    admission.charge(ada, 0, 0.0)
    with pytest.raises(QuotaExceededError) as caught:
        admission.charge(ada, 20, 0.0)
    assert caught.value.headers()["retry-after"] == "50"


def test_a_changed_quota_holds_at_once() -> None:
    admission = Admission()
    admission.charge(Client("ada", characters_per_minute=600), 10, 0.0)
    admission.charge(Client("ada", characters_per_minute=6), 6, 0.0)
    with pytest.raises(QuotaExceededError):
        admission.charge(Client("ada", characters_per_minute=6), 6, 50.0)
    admission.charge(Client("ada"), 1_000_000, 50.0)
    admission.charge(None, 1_000_000, 50.0)


def test_streams_are_counted_by_key() -> None:
    admission = Admission()
    ada, bob = Client("ada", streams=2), Client("bob", streams=1)
    admission.enter(ada)
    admission.enter(ada)
    admission.enter(bob)
    with pytest.raises(QuotaExceededError, match="may have 2 at once"):
        admission.enter(ada)
    admission.leave(ada)
    admission.enter(ada)
    for _ in range(3):
        admission.enter(Client("many"))
        admission.enter(None)
        admission.leave(None)


def test_a_real_time_factor_follows_what_was_measured_last() -> None:
    factors = RealTimeFactors()
    assert factors.of("m") == 0.0
    factors.add("m", busy=1.0, audio=2.0)
    assert factors.of("m") == 0.5
    factors.add("m", busy=0.0, audio=0.0)
    assert factors.of("m") == 0.5
    factors.add("m", busy=0.0, audio=2.0)
    assert factors.of("m") == pytest.approx(0.9 / 3.8)
    for _ in range(100):
        factors.add("m", busy=0.25, audio=1.0)
    assert factors.of("m") == pytest.approx(0.25, rel=1e-3)
    assert factors.of("n") == 0.0


def loaded(max_load: float) -> Admission:
    admission = Admission(max_load)
    admission.factors.add("m", 4.0, 10.0)
    admission.factors.add("slow", 30.0, 10.0)
    return admission


def test_a_stream_more_than_the_thread_can_feed_is_refused() -> None:
    admission = loaded(1.0)
    tickets = [admission.open("m", None), admission.open("m", None)]
    assert admission.load == pytest.approx(0.8)
    admission.check("unmeasured")
    with pytest.raises(OverloadedError) as caught:
        admission.check("m")
    assert caught.value.headers()["retry-after"]
    with pytest.raises(OverloadedError):
        admission.open("m", None)
    # A refused one takes nothing.
    assert admission.load == pytest.approx(0.8)
    for ticket in tickets:
        ticket.charge(1_000)
    tickets[0].close(0.0, 0.0, whole=False)
    tickets[0].close(0.0, 0.0, whole=False)
    assert admission.load == pytest.approx(0.4)
    admission.check("m")


def test_a_model_slower_than_real_time_still_speaks_alone() -> None:
    admission = loaded(1.0)
    alone = admission.open("slow", None)
    alone.charge(1)
    with pytest.raises(OverloadedError):
        admission.check("m")
    alone.close(30.0, 10.0, whole=True)
    admission.check("m")


def test_without_a_bound_nothing_is_refused() -> None:
    admission = loaded(0.0)
    for _ in range(10):
        admission.open("slow", None).charge(1)
    assert admission.load == pytest.approx(30.0)


def test_only_whole_streams_are_measured() -> None:
    admission = loaded(1.0)
    admission.open("m", None).close(100.0, 10.0, whole=False)
    assert admission.factors.of("m") == pytest.approx(0.4)
    admission.open("m", None).close(10.0, 10.0, whole=True)
    assert admission.factors.of("m") > 0.6
