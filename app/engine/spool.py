"""Bound on the uploads that lie on the disk at once, while their senders are slow or while they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.engine.admission import key_name
from app.errors import OverloadedError

# Bytes with which an upload gets behind all others in the order of who loses its place.
STEP: Final = 1 << 20


@dataclass(eq=False, slots=True)
class UploadReservation:
    """Room of one upload: the bytes that came. It may be lost until the upload is whole. `close` it in the end."""

    spool: Spool
    owner: str | None
    lose: Callable[[OverloadedError], None]
    size: int = 0
    is_whole: bool = False

    def add(self, size: int, *, last: bool = False) -> None:
        """Count `size` bytes that came, which may be the `last`. Raises OverloadedError once the place is lost."""
        self.spool.add(self, size)
        self.is_whole |= last

    def close(self) -> None:
        """Give the room back. Later calls change nothing."""
        self.spool.remove(self)


class Spool:
    """Room for `size` bytes of uploads, of which a key, or another named owner, may have half. For the event loop.

    When there is no room, of the uploads that hold most the one whose last STEP bytes took longest to come loses its
    place.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # The slowest first.
        self._places: dict[UploadReservation, None] = {}
        self._held: Counter[str | None] = Counter()

    def place(self, lose: Callable[[OverloadedError], None], owner: str | None = None) -> UploadReservation:
        """Return a place for one upload; `lose` is called when it is lost. `owner` defaults to the request's key."""
        place = UploadReservation(self, owner or key_name(), lose)
        self._places[place] = None
        return place

    def add(self, place: UploadReservation, size: int) -> None:
        """Count bytes that came for `place`. Raises OverloadedError."""
        if place in self._places:
            if (place.size + size) // STEP > place.size // STEP:
                self._places[place] = self._places.pop(place)
            place.size += size
            self._held[place.owner] += size
        error = OverloadedError("Enough recordings are being uploaded already; try again shortly.")
        while place in self._places:
            mine = place.owner is not None and self._held[place.owner] > self._size // 2
            if not mine and self._held.total() <= self._size:
                return
            rivals = [each for each in self._places if not each.is_whole and (each.owner == place.owner or not mine)]
            # A small upload frees nothing: of those that hold more than others the slowest loses its place.
            part = sum(each.size for each in rivals) / max(1, len(rivals))
            slowest = next((each for each in rivals if each.size >= part), place)
            self.remove(slowest)
            slowest.lose(error)
        raise error

    def remove(self, place: UploadReservation) -> None:
        """Give the room of `place` back."""
        if place in self._places:
            del self._places[place]
            self._held[place.owner] -= place.size
