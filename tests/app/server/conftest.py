"""A server for one test of cloned voices, and speech for tests that recognize it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.app.server.surfaces import SPOKEN


@pytest.fixture
def running(start_server: Any, tmp_path: Path) -> Any:
    return start_server(data_dir=str(tmp_path / "data"), preload=("parrot",))


@pytest.fixture
def voice() -> np.ndarray:
    """5.6 seconds of speech at 16 kHz, two sentences with a pause between them."""
    return SPOKEN
