"""`nightingale doctor` in a process of its own, on a machine that has everything and on one that lacks a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import __version__
from models.backend import device_name, on_cpu
from models.native import kernels


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | environment,
    )


def test_report_names_device_kernels_and_models(tmp_path: Path) -> None:
    done = doctor(NIGHTINGALE_DATA_DIR=str(tmp_path))
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["version"].startswith(f"{__version__}, Python 3.")
    assert lines["device"] == device_name()
    assert lines["kernels"] == kernels.description()
    assert lines["data"] == str(tmp_path)
    assert lines["models"] == "house, phrasebook"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux" or not on_cpu(), reason="concerns MLX's CPU back end on Linux")
def test_missing_compiler_is_a_problem(tmp_path: Path) -> None:
    done = doctor("--json", PATH="/nowhere", XDG_CACHE_HOME=str(tmp_path))
    report = json.loads(done.stdout)
    assert report["kernels"] == "mlx"
    assert [("OpenBLAS" in problem, "native kernels" in problem) for problem in report["problems"]] == [
        (True, False),
        (False, True),
    ]
    assert (done.returncode, done.stderr) == (1, "")
    plain = doctor(PATH="/nowhere", XDG_CACHE_HOME=str(tmp_path))
    assert plain.returncode == 1
    assert plain.stdout.count("\nproblem  ") == 2


@pytest.mark.skipif(sys.platform != "linux" or not on_cpu(), reason="concerns MLX's CPU back end on Linux")
def test_kernels_that_are_turned_off_are_no_problem() -> None:
    done = doctor("--json", NATIVE_KERNELS="off")
    assert json.loads(done.stdout)["kernels"] == "mlx"
    assert done.returncode == 0
