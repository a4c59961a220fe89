"""Shape buckets."""

from __future__ import annotations

import pytest

from models.layers.padding import bucket


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 100), (100, 100), (101, 200), (1600, 1600), (1601, 3200), (6401, 12_800)]
)
def test_the_last_bucket_doubles(size: int, expected: int) -> None:
    """No length is without a bucket."""
    assert bucket(size, (100, 200, 300, 400, 600, 800, 1200, 1600)) == expected
