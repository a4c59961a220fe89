"""Bound on uploads: of all, and of each key; and which of them loses its place."""

from __future__ import annotations

from contextlib import closing

import pytest

from app.engine.admission import Client, client
from app.engine.spool import STEP, Spool, UploadReservation
from app.errors import OverloadedError


class Uploads:
    """Uploads of one spool by their names, and those that lost their places."""

    def __init__(self, size: int) -> None:
        self.spool = Spool(size)
        self.lost: list[str] = []

    def begin(self, name: str, owner: str | None = None) -> UploadReservation:
        return self.spool.place(lambda _: self.lost.append(name), owner)


def test_whole_uploads_together_are_bounded() -> None:
    uploads = Uploads(10)
    uploads.begin("a").add(4, last=True)
    uploads.begin("b").add(6, last=True)
    late = uploads.begin("c")
    with pytest.raises(OverloadedError):
        late.add(1)
    assert uploads.lost == ["c"]


def test_what_did_not_come_takes_no_room() -> None:
    uploads = Uploads(10)
    for name in "abcd":
        uploads.begin(name).add(1)
    uploads.begin("e").add(6, last=True)
    assert not uploads.lost


def test_the_slowest_upload_loses_its_place() -> None:
    uploads = Uploads(10 * STEP)
    slow, fast, whole = (uploads.begin(name) for name in ("slow", "fast", "whole"))
    whole.add(STEP, last=True)
    slow.add(5 * STEP)
    fast.add(STEP)
    slow.add(STEP - 1)  # too little to get ahead again
    new = uploads.begin("new")
    new.add(4 * STEP, last=True)
    assert uploads.lost == ["slow"]
    with pytest.raises(OverloadedError):
        slow.add(0)
    fast.add(4 * STEP, last=True)
    assert uploads.lost == ["slow"]


def test_a_small_upload_makes_no_room() -> None:
    uploads = Uploads(10 * STEP)
    small, fast = uploads.begin("small"), uploads.begin("fast")
    small.add(STEP // 2)
    with pytest.raises(OverloadedError):
        for _ in range(10):
            fast.add(STEP)
    assert uploads.lost == ["fast"]
    small.add(1, last=True)


def test_a_key_may_have_half() -> None:
    uploads = Uploads(10)
    token = client.set(Client("ada"))
    try:
        uploads.begin("first").add(3)
        uploads.begin("second").add(3)
        assert uploads.lost == ["first"]
        client.set(Client("bob"))
        uploads.begin("third").add(5)
        uploads.begin("satellite", "wyoming").add(2)
        assert uploads.lost == ["first"]
    finally:
        client.reset(token)


def test_a_failed_upload_gives_its_place_back() -> None:
    spool = Spool(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), closing(spool.place(lambda _: None)) as place:
            place.add(1, last=True)
            raise ValueError("broken")
