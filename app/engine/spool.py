"""Bound on the uploads that lie on the disk at once, while their senders are slow or while they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from app.engine.admission import key_name
from app.errors import OverloadedError

# Bytes with which an upload gets behind all others in the order of who loses its place.
STEP: Final = 1 << 20


class Place:
    """Room of one upload: the bytes that came. It may be lost until the upload is whole."""

    def __init__(self, spool: Spool, owner: str | None, lose: Callable[[OverloadedError], None]) -> None:
        self.owner = owner
        self.size = 0
        self.is_whole = False
        self.lose = lose
        self._spool = spool

    def add(self, size: int, *, last: bool = False) -> None:
        """Count `size` bytes that came, which may be the `last`. Raises OverloadedError."""
        self._spool.add(self, size)
        self.is_whole |= last


class Spool:
    """Room for `size` bytes of uploads, of which a key, or another named owner, may have half. For the event loop.

    When there is no room, the upload whose last STEP bytes took longest to come loses its place.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # The slowest first.
        self._places: dict[Place, None] = {}
        self._held: Counter[str | None] = Counter()

    @contextmanager
    def place(self, lose: Callable[[OverloadedError], None], owner: str | None = None) -> Iterator[Place]:
        """Yield a place for one upload; `lose` is called when another upload takes it. `owner` defaults to the key."""
        place = Place(self, owner or key_name(), lose)
        self._places[place] = None
        try:
            yield place
        finally:
            self._free(place)

    def add(self, place: Place, size: int) -> None:
        """Count bytes that came for `place`. Raises OverloadedError if it is lost."""
        if place in self._places:
            if (place.size + size) // STEP > place.size // STEP:
                self._places[place] = self._places.pop(place)
            place.size += size
            self._held[place.owner] += size
        while place in self._places and (full := self._full(place.owner)):
            slowest = next((each for each in full if not each.is_whole), place)
            self._free(slowest)
            if slowest is not place:
                slowest.lose(_too_many())
        if place not in self._places:
            raise _too_many()

    def _full(self, owner: str | None) -> list[Place]:
        """Return the places of which one must be lost, before `owner` may have as much as it has."""
        if owner is not None and self._held[owner] > self._size // 2:
            return [each for each in self._places if each.owner == owner]
        return list(self._places) if self._held.total() > self._size else []

    def _free(self, place: Place) -> None:
        if place in self._places:
            del self._places[place]
            self._held[place.owner] -= place.size


def _too_many() -> OverloadedError:
    return OverloadedError("Enough recordings are being uploaded already; try again shortly.")
