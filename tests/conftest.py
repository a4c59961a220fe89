"""A real server process with the house model, and a speech recognizer to listen to it."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import HealthCheck, settings

# A first start compiles every shape, which takes minutes on a loaded machine of two cores.
START_SECONDS = 480
STOP_SECONDS = 120
# Seconds to wait for an answer.
PATIENCE = 180
# Tests of clients that need packages of their own run in an environment that has no server.
SERVER_PYTHON = os.environ.get("SERVER_PYTHON", sys.executable)
RECOGNIZER_RATE = 16_000
ROOT = Path(__file__).parents[1]
# Seconds of each file in the last run with `--write-durations`, and those of a file that is not listed.
DURATIONS, UNKNOWN_SECONDS = ROOT / "tests" / "durations.tsv", 30.0

# The same examples on every machine, however slow; `pytest --hypothesis-profile=search` looks for others.
settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-durations` notes how long each file took, for the order of later runs."""
    parser.addoption("--write-durations", action="store_true", help="write tests/durations.tsv")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, and give the first test of the shared server the time that its start takes.

    As the last, a long file would keep one process waiting for the other.
    """
    lines = DURATIONS.read_text().splitlines() if DURATIONS.exists() else []
    seconds = {name: float(number) for name, _, number in (line.partition("\t") for line in lines)}
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], UNKNOWN_SECONDS))
    for item in items:
        if "house_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(START_SECONDS + 600))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the seconds of each file, as the process that distributes the tests knows them all."""
    if not config.getoption("--write-durations"):
        return
    seconds = Counter[str]()
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    DURATIONS.write_text("".join(f"{name}\t{number:.1f}\n" for name, number in sorted(seconds.items())))


@contextmanager
def serve(folder: Path, *arguments: str, **environment: str) -> Iterator[str]:
    """Run `python -m app.cli serve` on a free port until the block ends; yields its base URL once it is ready.

    It must become ready, stop on SIGTERM and exit with status 0; its log is quoted when it does not.
    """
    log = folder / "server.log"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTINGALE_", "HOST", "PORT"))}
    # Only the bundled models, whatever this machine's data directory holds.
    # A busy machine may keep a request waiting for longer than a server would.
    clean |= {"NIGHTINGALE_DATA_DIR": str(folder / "data"), "NIGHTINGALE_QUEUE_SECONDS": "300", **environment}
    with log.open("w") as output:
        process = subprocess.Popen(
            [SERVER_PYTHON, "-m", "app.cli", "serve", "--port", "0", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean,
        )
    try:
        url = _wait_for_address(process, log)
        _wait_until_ready(process, log, url)
        yield url
        assert process.poll() is None, f"the server ended by itself:\n{log.read_text()}"
        process.terminate()
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the server did not stop on SIGTERM:\n{log.read_text()}")
        assert status == 0, f"exit status {status}:\n{log.read_text()}"
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = re.search(r"running on (http://[\d.]+:\d+)", log.read_text())
        if found:
            return found.group(1)
        assert process.poll() is None, f"the server did not start:\n{log.read_text()}"
        time.sleep(0.02)
    pytest.fail(f"the server printed no address:\n{log.read_text()}")


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path, url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended while it warmed up:\n{log.read_text()}"
        if httpx.get(f"{url}/readyz").status_code == 200:
            return
        time.sleep(0.05)
    pytest.fail(f"the server was not ready in {START_SECONDS} s:\n{log.read_text()}")


def pytest_configure() -> None:
    """Undo what depends on the machine: an ignored SIGINT, a proxy, and a client that gives up after five seconds.

    A shell hands SIGINT down ignored to what it starts in the background; the programs under test must hear it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    patience = httpx._config.DEFAULT_TIMEOUT_CONFIG
    patience.connect = patience.read = patience.write = patience.pool = PATIENCE


@pytest.fixture(scope="session")
def house_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of `house_server`."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def house_server(house_folder: Path) -> Iterator[str]:
    """Base URL of a warm server process with the bundled models, one for the whole run."""
    with serve(house_folder, "--wyoming-port", "0", NIGHTINGALE_PRELOAD="phrasebook") as url:
        yield url


@pytest.fixture(scope="session")
def wyoming_port(house_server: str, house_folder: Path) -> int:
    """Port on which `house_server` listens for Wyoming's clients."""
    found = re.search(r"Wyoming listens on tcp://127\.0\.0\.1:(\d+)", (house_folder / "server.log").read_text())
    assert found
    return int(found.group(1))


@pytest.fixture(scope="session")
def listening_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log of the process that `listening` starts."""
    return tmp_path_factory.mktemp("listening") / "log"


@pytest.fixture(scope="session")
def listening(listening_log: Path) -> Iterator[str]:
    """Base URL of a server process with the stand-ins; its recognizer hears a segment a second."""
    log = listening_log
    choices = {"NIGHTINGALE_RECOGNITION_MODEL": "ear", "NIGHTINGALE_WYOMING_PORT": "0", "PORT": "0"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [SERVER_PYTHON, str(ROOT / "tests" / "app" / "conftest.py")],
            stderr=output,
            stdout=output,
            env=os.environ | choices | {"PYTHONPATH": str(ROOT)},
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(r"ready: open (http://[\d.:]+)/", log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield found.group(1)
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0, log.read_text()
        # Those of the model that was asked to fail.
        assert log.read_text().count("Traceback") == log.read_text().count("RuntimeError: a failure inside the model")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(scope="session")
def listening_wyoming_port(listening: str, listening_log: Path) -> int:
    """Port on which that process listens for Wyoming's clients."""
    found = re.search(r"Wyoming listens on tcp://127\.0\.0\.1:(\d+)", listening_log.read_text())
    assert found
    return int(found.group(1))


@pytest.fixture(scope="session")
def run_house() -> Callable[..., AbstractContextManager[str]]:
    """`run_house(folder, *arguments, **environment)`: another server process, with settings of its own."""
    return serve


@pytest.fixture(scope="session")
def server(house_server: str) -> str:
    """The same server; folders of tests with a server of their own override this name."""
    return house_server


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """`program(name)`: the path of a program that Debian's packages bring. Without it the test is skipped, save on the
    build machine, which installs them all (CI=1)."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None and os.environ.get("CI"):
            pytest.fail(f"'{name}' is not installed")
        if path is None:
            pytest.skip(f"'{name}' is not installed; .ci/run names its package")
        return path

    return find


Recognize = Callable[..., str]


@pytest.fixture(scope="session")
def recognize() -> Recognize:
    """`recognize(audio, rate)`: the words that pocketsphinx's English model hears, lower case.

    `audio` is an encoded file's bytes (then no rate is needed), or samples at `rate`: float in [-1, 1] or int16.
    """
    from pocketsphinx import Decoder

    decoder = Decoder(samprate=RECOGNIZER_RATE, loglevel="FATAL")

    def hear(audio: bytes | np.ndarray, rate: int | None = None) -> str:
        if isinstance(audio, bytes):
            audio, rate = soundfile.read(io.BytesIO(audio), dtype="float32")
        samples = audio.astype(np.float32) / (32_768 if audio.dtype == np.int16 else 1)
        samples = np.clip(soxr.resample(samples, rate, RECOGNIZER_RATE), -1, 1)
        # Each utterance starts from the same state: the order of tests must not matter.
        decoder.reinit_feat()
        decoder.start_utt()
        decoder.process_raw((samples * 32_767).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()
        return decoder.hyp().hypstr if decoder.hyp() else ""

    return hear
