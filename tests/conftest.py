"""A real server process with the house model, and a speech recognizer to listen to it."""

from __future__ import annotations

import functools
import io
import logging
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import HealthCheck, settings

from tests.processes import PATIENCE, START_SECONDS, Process, serve, serve_stand_ins

RECOGNIZER_RATE = 16_000
# Seconds of each file in the last run with `--write-durations`, and those of a file that is not listed.
DURATIONS, UNKNOWN_SECONDS = Path(__file__).with_name("durations.tsv"), 30.0

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
    """Begin with the longest files, and give the first test of a shared server the time that its start takes.

    As the last, a long file would keep one process waiting for the other.
    """
    lines = DURATIONS.read_text().splitlines() if DURATIONS.exists() else []
    seconds = {name: float(number) for name, _, number in (line.partition("\t") for line in lines)}
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], UNKNOWN_SECONDS))
    for item in items:
        if "house" in getattr(item, "fixturenames", ()) or item.nodeid.startswith("tests/faults/"):
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


def pytest_configure() -> None:
    """Undo what depends on the machine: an ignored SIGINT, a proxy, and a client that gives up after five seconds.

    httpx.get() and its like load the certificates of authorities at each call, which takes longer than most answers do.
    Here they are loaded once. A shell hands SIGINT down ignored to what it starts in the background; the programs under
    test must hear it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    patience = httpx._config.DEFAULT_TIMEOUT_CONFIG
    patience.connect = patience.read = patience.write = patience.pool = PATIENCE
    httpx._transports.default.create_ssl_context = functools.cache(httpx.create_ssl_context)


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Give the log of the service its level again: a command that runs in this process makes it quiet."""
    yield
    logging.getLogger("app").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A warm server process with the bundled models, one for the whole run."""
    folder = tmp_path_factory.mktemp("server")
    with serve(folder, "--wyoming-port", "0", NIGHTINGALE_PRELOAD="phrasebook") as process:
        yield process


@pytest.fixture(scope="session")
def house_server(house: Process) -> str:
    """Base URL of that process."""
    return house.url


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server process with the stand-ins, one for the whole run; its recognizer hears a segment a second."""
    choices = {"NIGHTINGALE_RECOGNITION_MODEL": "ear", "NIGHTINGALE_WYOMING_PORT": "0"}
    with serve_stand_ins(tmp_path_factory.mktemp("listening"), **choices) as process:
        yield process


@pytest.fixture(scope="session")
def listening(stand_ins: Process) -> str:
    """Base URL of that process."""
    return stand_ins.url


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


@pytest.fixture(scope="session")
def spoken() -> np.ndarray:
    """5.63 seconds of speech in a voice of this server, float32 [samples] at 16 kHz."""
    pcm, rate = soundfile.read(Path(__file__).with_name("golden") / "spoken.ogg", dtype="float32")
    assert rate == RECOGNIZER_RATE
    return pcm


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


@pytest.fixture(scope="session")
def share_heard(recognize: Recognize) -> Callable[..., float]:
    """`share_heard(said, audio, rate)`: the share of the words of `said` that `recognize` finds in the audio.

    `audio` is an encoded file's bytes without a `rate`, else samples, which may be bytes of 16 bits each.
    """

    def share(said: str, audio: bytes | np.ndarray, rate: int | None = None) -> float:
        if rate is not None and not isinstance(audio, np.ndarray):
            audio = np.frombuffer(audio, "<i2")
        heard = recognize(audio, rate).split()
        words = re.findall(r"[a-z']+", said.lower())
        return sum(word in heard for word in words) / len(words)

    return share
