"""A recording for servers whose recognizer is a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def speech() -> bytes:
    """A recording of 5.63 seconds, as Ogg."""
    return (Path(__file__).parents[1] / "golden" / "spoken.ogg").read_bytes()
