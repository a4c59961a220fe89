"""Coroutines among the tests run by asyncio: mark them `anyio`."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
