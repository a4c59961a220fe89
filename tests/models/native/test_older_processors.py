"""The native kernels with the instructions of older processors, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.native import kernels

HERE = Path(__file__)
FILES = [str(HERE.with_name(name)) for name in ("test_kernels.py", "test_transformer.py", "test_unet.py")]


@pytest.mark.slow
@pytest.mark.skipif(not kernels.available(), reason="no native kernels on this device")
@pytest.mark.parametrize("instructions", ["baseline", "avx2", "avxvnni", "avx512"])
def test_older_processors(instructions: str) -> None:
    """All of their tests, none of which may be skipped."""
    environment = os.environ | {"NATIVE_KERNELS": instructions}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow", *FILES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout, done.stdout
