"""Shape buckets: a GPU compiles or plans for each new shape, so that lengths are padded to a few sizes."""

from __future__ import annotations

from collections.abc import Sequence


def bucket(size: int, buckets: Sequence[int]) -> int:
    """Return the smallest of `buckets`, ascending, that holds `size`; beyond the last, it doubles."""
    last = buckets[-1]
    while last < size:
        last *= 2
    return next((candidate for candidate in buckets if candidate >= size), last)
