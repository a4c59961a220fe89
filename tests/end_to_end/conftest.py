"""A recording for servers whose recognizer is a stand-in."""

from __future__ import annotations

import pytest

from tests.clients import SPOKEN


@pytest.fixture(scope="session")
def speech() -> bytes:
    """A recording of 5.63 seconds, as Ogg."""
    return SPOKEN.read_bytes()
