"""A server process to be mistreated, a witness who must not notice, and what must be as before afterwards.

Every fault runs inside `undisturbed`: meanwhile two other clients listen, and what they hear is compared with what they
heard when nobody else was there. Afterwards no stream, no task and no descriptor may be left of the fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.clients import clone, converse, speak
from tests.processes import PATIENCE, ROOT, Process, clean_environment, start_process, wait_until

TEXT = (
    "The last bus was late again. We walked along the river instead. Nobody minded, because the night was warm. "
    "The office closes at six."
)
# What may be kept of the faults, in bytes, 64 MiB of it compiled functions (`models.backend`). MLX's arrays and its
# cache, bounded by `mlx_cache_bytes`, are not counted, nor what the allocator can give back.
MEMORY = 96 << 20
# Arrays in use, once the last step of who has gone is through, are the weights and little of the last request.
ARRAYS = 2 << 20
# What may be left of each when a fault is over.
LEFT = {
    "nightingale_active_streams": 0,
    "faults_tasks": 0,
    "process_open_fds": 0,
    "nightingale_mlx_active_memory_bytes": ARRAYS,
}
# Short enough that a test may wait for them.
CHOICES = {
    "NIGHTINGALE_PRELOAD": "phrasebook",
    "NIGHTINGALE_IDLE_SECONDS": "20",
    "NIGHTINGALE_QUEUE_SECONDS": "120",
    "NIGHTINGALE_STALL_SECONDS": "3",
    "NIGHTINGALE_WYOMING_PORT": "0",
}


def gauges(server: Process) -> dict[str, float]:
    """Return every sample without labels that /metrics has."""
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text)
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def memory(found: dict[str, float]) -> float:
    """Resident bytes that are not MLX's."""
    mlx = found["nightingale_mlx_active_memory_bytes"] + found["nightingale_mlx_cache_memory_bytes"]
    return found["process_resident_memory_bytes"] - mlx


@contextmanager
def launch(folder: Path, port: int = 0, **environment: str) -> Iterator[Process]:
    """A ready server of `server.py`, killed in the end if the test did not end it."""
    own = {"NIGHTINGALE_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, Path(__file__).with_name("server.py"), port]
    with start_process(folder, command, env=clean_environment() | own) as server:
        yield server


def by_socket(server: Process) -> bytes:
    """The audio of `TEXT` over the WebSocket."""
    start = {"type": "start", "format": "pcm", "seed": 7}
    messages = (start, {"type": "text", "text": TEXT}, {"type": "end"})
    audio, events = converse(server.socket_url, *messages, compression=None)
    assert [event for event in events if event["type"] == "error"] == []
    return audio


def by_http(server: Process) -> bytes:
    """The same over HTTP."""
    return speak(server.url, TEXT, response_format="pcm", seed=7).raise_for_status().content


class Listeners:
    """Clients that do nothing wrong, one a surface, in threads of their own."""

    def __init__(self, server: Process) -> None:
        self._pool = ThreadPoolExecutor(2)
        self._heard = {ask.__name__: self._pool.submit(ask, server) for ask in (by_socket, by_http)}

    def wait(self) -> dict[str, bytes]:
        return {name: heard.result(PATIENCE) for name, heard in self._heard.items()}


@pytest.fixture(scope="session")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The server that the faults happen to; it must survive them all."""
    with launch(tmp_path_factory.mktemp("faults"), **CHOICES) as server:
        yield server
        server.stop()
        log = server.log.read_text()
        for never in ("Exception in ASGI", "never retrieved", "was destroyed but it is pending", "Invalid UTF-8"):
            assert never not in log, log[-20_000:]


@pytest.fixture(scope="session")
def undisturbed_audio(victim: Process) -> dict[str, bytes]:
    """Audio of the listeners when nothing is wrong."""
    heard = Listeners(victim).wait()
    assert len(heard["by_socket"]) > 24_000 * 2 * 4
    assert heard == {ask.__name__: ask(victim) for ask in (by_socket, by_http)}
    return heard


@pytest.fixture(scope="session")
def at_rest(victim: Process, undisturbed_audio: dict[str, bytes]) -> dict[str, float]:
    """Gauges of the server when nobody is there, after everything was used once: what loads stays, 70 MB of it."""
    for lang in ("en-us", "en-gb", "de", "es", "fr-fr", "it", "pt-br", "hi"):
        speak(victim.url, "It is 12 o'clock.", lang=lang, any_language=True).raise_for_status()
    for form in ("mp3", "opus", "aac", "flac"):
        speak(victim.url, response_format=form).raise_for_status()
    httpx.post(f"{victim.url}/detect", json={"q": "Bonjour"}, timeout=PATIENCE).raise_for_status()
    # From now on there are processes that decode recordings: one of voices, and one of what is to be recognized.
    assert clone(victim.url, b"no audio").status_code == 400
    unheard = {"files": {"file": ("a", b"no audio")}}
    assert httpx.post(f"{victim.url}/v1/audio/transcriptions", **unheard, timeout=PATIENCE).status_code == 400
    wait_until(lambda: gauges(victim)["nightingale_active_streams"] == 0, lambda: "streams are left")
    # A connection that was just closed may still be counted.
    found = [gauges(victim) for _ in range(5)]
    return {name: min(each[name] for each in found) for name in found[0]}


Undisturbed = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def undisturbed(victim: Process, undisturbed_audio: dict[str, bytes], at_rest: dict[str, float]) -> Undisturbed:
    """`with undisturbed(): fault` checks what must hold during the fault, and after it."""

    @contextmanager
    def watch() -> Iterator[None]:
        listeners = Listeners(victim)
        yield
        assert listeners.wait() == undisturbed_audio
        now: dict[str, float] = {}

        def rests() -> bool:
            now.update(gauges(victim))
            return all(now[name] <= at_rest[name] + more for name, more in LEFT.items())

        wait_until(rests, lambda: str([(name, at_rest[name], now[name]) for name in LEFT]))
        # The first reading gave back what was free.
        wait_until(
            lambda: memory(gauges(victim)) < memory(at_rest) + MEMORY,
            lambda: f"{memory(at_rest)} bytes became {memory(gauges(victim))}",
        )
        assert httpx.get(f"{victim.url}/livez", timeout=PATIENCE).status_code == 200
        assert httpx.get(f"{victim.url}/readyz", timeout=PATIENCE).status_code == 200

    return watch
