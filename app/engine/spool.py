"""Bound on the uploads that lie on the disk at once, while their senders are slow or while they wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.engine.admission import key_name
from app.errors import OverloadedError


class Spool:
    """Room for `size` units of uploads: bytes, or recordings. A key may have half of it. For the event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: list[tuple[str | None, int]] = []

    @contextmanager
    def place(self, units: int = 1) -> Iterator[None]:
        """Hold room for one upload of so many units. Raises OverloadedError."""
        owner = key_name()
        held = sum(taken for _, taken in self._held)
        mine = sum(taken for name, taken in self._held if name == owner)
        if held + units > self._size or (owner is not None and mine + units > self._size // 2):
            raise OverloadedError("Enough recordings are being uploaded already; try again shortly.")
        entry = (owner, units)
        self._held.append(entry)
        try:
            yield
        finally:
            self._held.remove(entry)
