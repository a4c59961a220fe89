"""Bound on uploads: of all, and of each key."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from app.engine.admission import Client, client
from app.engine.spool import Spool
from app.errors import OverloadedError


def test_all_uploads_together_are_bounded() -> None:
    spool = Spool(10)
    with ExitStack() as held:
        held.enter_context(spool.place(4))
        held.enter_context(spool.place(6))
        with pytest.raises(OverloadedError), spool.place(1):
            pass
    with spool.place(10):
        pass


def test_a_key_may_have_half() -> None:
    spool = Spool(10)
    token = client.set(Client("ada"))
    try:
        with spool.place(5), pytest.raises(OverloadedError), spool.place(1):
            pass
        with spool.place(5):
            client.set(Client("bob"))
            with spool.place(5):
                pass
    finally:
        client.reset(token)


def test_a_failed_upload_gives_its_place_back() -> None:
    spool = Spool(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), spool.place():
            raise ValueError("broken")
