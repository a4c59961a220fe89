"""Padding to a bucket: a GPU compiles or plans for each new shape, so that lengths are padded to a few sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.backend import mx


def bucket(size: int, buckets: Sequence[int]) -> int:
    """Return the smallest of `buckets`, ascending, that holds `size`; beyond the last, it doubles."""
    last = buckets[-1]
    while last < size:
        last *= 2
    return next((candidate for candidate in buckets if candidate >= size), last)


@dataclass(frozen=True, slots=True)
class PaddingMask:
    """`mask` [B, L, 1] is 1 on valid rows, the first ones, and 0 after; `count` [B, 1, 1] is their number.

    Both are None where nothing is padded.
    """

    mask: mx.array | None = None
    count: mx.array | None = None

    @staticmethod
    def of(count: mx.array | None, rows: int) -> PaddingMask:
        """Return the mask of the first `count` [B, 1, 1] of `rows` rows; all rows where count is None."""
        if count is None:
            return PaddingMask()
        return PaddingMask((mx.arange(rows)[None, :, None] < count).astype(mx.float32), count.astype(mx.float32))

    def number(self, x: mx.array) -> mx.array:
        """Return the number of valid rows of x [B, L, C], int32 [B]."""
        if self.count is None:
            return mx.full((x.shape[0],), x.shape[1], dtype=mx.int32)
        return self.count[:, 0, 0].astype(mx.int32)

    def zero(self, x: mx.array) -> mx.array:
        """Return x [B, L, C] with its padding set to zero."""
        return x if self.mask is None else x * self.mask.astype(x.dtype)

    def doubled(self, rows: int) -> PaddingMask:
        """Return the mask after the length has doubled to `rows`."""
        return self if self.count is None else PaddingMask.of(self.count * 2, rows)
