"""The command `nightingale`, in a process of its own or in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app import assembly
from app.main import main

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
        command = [sys.executable, "-m", "app", *arguments]
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


@pytest.fixture
def catalog(make_catalog: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Stand-ins that commands find in place of their models: `ear` recognizes, and `shout` translates."""
    made = make_catalog(recognizer="ear", translator="shout")
    monkeypatch.setattr(assembly, "Catalog", lambda settings: made)
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", str(tmp_path / "data"))
    return made


@pytest.fixture
def microphone(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], np.ndarray]], None]:
    """`microphone(read)`: a sound card that a machine may not have, whose next samples at 16 kHz are `read(size)`.

    `read` fails with a RuntimeError, as the driver does.
    """

    class Stream:
        def __init__(self, samplerate: int, channels: int, dtype: str) -> None:
            assert (samplerate, channels, dtype) == (16_000, 1, "float32")

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    def plug_in(read: Callable[[int], np.ndarray]) -> None:
        read_both = {"read": lambda _, size: (read(size)[:, np.newaxis], False)}
        module = SimpleNamespace(InputStream=type("Microphone", (Stream,), read_both), PortAudioError=RuntimeError)
        monkeypatch.setitem(sys.modules, "sounddevice", module)

    return plug_in


def one_line(done: Done, status: int) -> str:
    """The only line of a failure."""
    error = done.stderr.decode()
    assert done.returncode == status, error
    assert error.count("\n") == 1, error
    assert error.startswith("nightingale")
    return error
