"""The command `nightingale`, in a process of its own or in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import main

Done = subprocess.CompletedProcess[bytes]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables of a person who has set none of this project, with a data directory of the test."""
    ours = ("NIGHTINGALE_", "HOST", "PORT", "HF_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return clean | {"NIGHTINGALE_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., Done]:
    """`run(*arguments, stdin=b"", **variables)`: the command in a process of its own."""

    def run_process(*arguments: str, stdin: bytes = b"", **more: str) -> Done:
        command = [sys.executable, "-m", "app.cli", *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, env=environment | more, timeout=300, check=False
        )

    return run_process


@pytest.fixture
def call(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Done]:
    """`call(*arguments, stdin=b"", **variables)`: the same command in this process, which takes no second to begin."""
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", environment["NIGHTINGALE_DATA_DIR"])

    def call_main(*arguments: str, stdin: bytes = b"", **more: str) -> Done:
        with monkeypatch.context() as changed, tempfile.TemporaryFile() as file:
            for name, value in more.items():
                changed.setenv(name, value)
            file.write(stdin)
            file.seek(0)
            changed.setattr(sys, "stdin", io.TextIOWrapper(file))
            capfdbinary.readouterr()
            try:
                status = main(arguments)
            except SystemExit as end:
                status = end.code
            out, error = capfdbinary.readouterr()
        return Done(arguments, status, out, error)

    return call_main


def one_line(done: Done, status: int) -> str:
    """The only line of a failure."""
    error = done.stderr.decode()
    assert done.returncode == status, error
    assert error.count("\n") == 1, error
    assert error.startswith("nightingale")
    return error
