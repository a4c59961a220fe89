"""The preference `wait` of a request's headers."""

from __future__ import annotations

import pytest

from app.request_context import WaitPreference
from app.server.middleware.context import wait_preference


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (["wait"], None),
        (["Wait = 30"], 30),
        (['wait="5"'], 5),
        (['wait=""'], None),
        (["respond-async", "handling=lenient, wait=10; note=x"], 10),
        (["wait=7, wait=9"], 7),
        (["wait=soon, wait=9"], 9),
        (["wait=0"], 0),
    ],
)
def test_a_wait_is_read(values: list[str], seconds: int | None) -> None:
    assert wait_preference(values) == WaitPreference(asked=True, seconds=seconds)


@pytest.mark.parametrize(
    "values", [[], [""], ["waiting"], ["wait=-1"], ["wait=1.5"], ["wait=" + "9" * 5_000], ["wait=\u0663"], [",;=,"]]
)
def test_what_cannot_be_read_is_no_preference(values: list[str]) -> None:
    assert wait_preference(values) == WaitPreference()
