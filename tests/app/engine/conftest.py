"""An event loop for jobs."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for jobs that no loop runs."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()
