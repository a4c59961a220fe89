"""Seeds of the tests of the native kernels."""

from __future__ import annotations

import zlib

import pytest

from models.backend import mx


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Give each test random arrays of its own, the same in each run."""
    mx.random.seed(zlib.crc32(request.node.name.encode()))
