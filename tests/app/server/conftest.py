"""A server for one test of cloned voices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def running(start_server: Any, tmp_path: Path) -> Any:
    return start_server(data_dir=str(tmp_path / "data"), preload=("parrot",))
