"""Server processes of the tests: started on a free port, ready when a test gets them, and stopped with a clean log."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[1]
STAND_INS = ROOT / "tests" / "app" / "conftest.py"
# Tests of clients that need packages of their own run in an environment that has no server.
SERVER_PYTHON = os.environ.get("SERVER_PYTHON", sys.executable)
# A first start compiles every shape, which takes minutes on a loaded machine of two cores.
START_SECONDS = 480
STOP_SECONDS = 120
# Seconds to wait for an answer.
PATIENCE = 180


@dataclass
class Process:
    """A server process that is ready, and its files."""

    url: str
    popen: subprocess.Popen[bytes]
    log: Path
    folder: Path

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    @property
    def wyoming(self) -> tuple[str, int]:
        """Address on which it listens for Wyoming's clients."""
        match = re.search(r"Wyoming listens on tcp://([\d.]+):(\d+)", self.log.read_text())
        assert match is not None
        return match[1], int(match[2])

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/v1/audio/stream"

    def memory(self, name: str = "VmRSS") -> int:
        """Bytes that the process has in memory, or `VmHWM`: ever had."""
        return memory(self.popen.pid, name)

    def stop(self) -> None:
        """Send SIGTERM; it must exit with status 0."""
        assert self.popen.poll() is None, f"the server ended by itself:\n{self.log.read_text()}"
        self.popen.terminate()
        try:
            status = self.popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the server did not stop on SIGTERM:\n{self.log.read_text()}")
        assert status == 0, f"exit status {status}:\n{self.log.read_text()}"


def memory(pid: int, name: str = "VmRSS") -> int:
    """Return the bytes that a process has in memory; 0 once it is gone, and where the system does not say."""
    try:
        match = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(match.group(1)) << 10 if match else 0


def wait_until(
    holds: Callable[[], object], what: Callable[[], str] = lambda: "it never came true", seconds: float = PATIENCE
) -> None:
    """Wait until `holds()`; the test fails with `what()` if that takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def metric(url: str, name: str) -> float:
    """Return the first sample of /metrics whose name and labels match the pattern `name`; 0 without one."""
    match = re.search(rf"^{name} (\S+)", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    return float(match.group(1)) if match else 0.0


def total(url: str, beginning: str) -> float:
    """Return the sum of the samples of /metrics whose lines begin with the pattern."""
    found = re.findall(rf"^{beginning}.* (\S+)$", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    return sum(map(float, found))


def run(*command: object, seconds: float = PATIENCE, **more: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, and return what it printed: text, unless `more`, which is for subprocess, says else."""
    options = {"capture_output": True, "text": True, "timeout": seconds} | more
    return subprocess.run(list(map(str, command)), check=False, **options)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without settings of a server."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTINGALE_", "HOST", "PORT"))}


@contextmanager
def start_process(folder: Path, command: Sequence[object], ready: str = "/readyz", **more: Any) -> Iterator[Process]:
    """Run a command that prints the address of its server; yield it once the path `ready`, if any, answers 200.

    `more` is for Popen. What is left of the process in the end is killed. The test stops it and checks its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"server-{time.monotonic_ns()}.log"
    with log.open("w") as output:
        popen = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, **more)
    try:
        url = ""

        def answers() -> bool:
            nonlocal url
            assert popen.poll() is None, f"the server did not start:\n{log.read_text()}"
            match = re.search(r"running on http://[\d.]+:(\d+)", log.read_text())
            url = f"http://127.0.0.1:{match.group(1)}" if match else ""
            return bool(url) and (not ready or httpx.get(url + ready).status_code == 200)

        wait_until(answers, lambda: f"not ready in {START_SECONDS} s:\n{log.read_text()}", START_SECONDS)
        yield Process(url, popen, log, folder)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()


@contextmanager
def serve(folder: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    """Run `nightingale serve` with the bundled models until the block ends; its log must hold no failure."""
    # Only the bundled models, whatever this machine's data directory holds.
    # A busy machine may keep a request waiting for longer than a server would.
    own = {"NIGHTINGALE_DATA_DIR": str(folder / "data"), "NIGHTINGALE_QUEUE_SECONDS": "300"}
    command = [SERVER_PYTHON, "-m", "app", "serve", "--port", "0", *arguments]
    with start_process(folder, command, env=clean_environment() | own | environment) as process:
        yield process
        process.stop()
        assert "Traceback" not in process.log.read_text(), process.log.read_text()


def start_stand_ins(
    folder: Path, *, more: dict[str, Any] | None = None, **environment: str
) -> AbstractContextManager[Process]:
    """Start a server with the models of `tests/app/standins.py`, which the test stops. `more` is for Popen."""
    own = {"NIGHTINGALE_DATA_DIR": str(folder / "data"), "PORT": "0", "PYTHONPATH": str(ROOT)}
    return start_process(
        folder, [SERVER_PYTHON, STAND_INS], env=clean_environment() | own | environment, **(more or {})
    )


@contextmanager
def serve_stand_ins(folder: Path, *, more: dict[str, Any] | None = None, **environment: str) -> Iterator[Process]:
    """Run such a server until the block ends; its log must hold no failure, save those of a model that was asked to."""
    with start_stand_ins(folder, more=more, **environment) as process:
        yield process
        process.stop()
        log = process.log.read_text()
        assert log.count("Traceback") == log.count("RuntimeError: a failure inside the model"), log
