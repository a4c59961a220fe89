"""Replicas under a Ray of their own on this machine, and clients that tell which replica served them."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.processes import Process, clean_environment, start_process

PATIENCE = 60
REPLICAS = 2
# Requests that each replica takes at once, and that wait for one.
ROOM, WAITING = 4, 2
MARK = "x-replica"


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on."""
    for first in range(20_000, 30_000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for offset, each in enumerate(sockets):
                each.bind(("127.0.0.1", first + offset))
        except OSError:
            continue
        else:
            return first
        finally:
            for each in sockets:
                each.close()
    pytest.fail("no free ports")


@dataclass
class Cluster(Process):
    """A running `nightingale serve --replicas`."""

    first_port: int = 0
    stopping: bool = False

    def stop(self) -> None:
        """Send SIGTERM, once: a second one ends it at once."""
        assert self.popen.poll() is None, self.log.read_text()[-10_000:]
        if not self.stopping:
            self.popen.terminate()
        self.stopping = True

    def replicas(self) -> dict[str, int]:
        """The names of the replicas that are ready, each with its own port."""
        found = {}
        for port in range(self.first_port, self.first_port + REPLICAS + 1):
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE)
            except httpx.TransportError:
                continue
            if answer.status_code == 200:
                found[answer.headers[MARK]] = port
        return found

    def processes(self) -> list[Any]:
        """Everything that this started."""
        import psutil

        top = psutil.Process(self.popen.pid)
        return [top, *top.children(recursive=True)]

    def pid(self, port: int) -> int:
        """Return the owner of that port."""
        import psutil

        for process in self.processes():
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    return int(process.pid)
        pytest.fail(f"nobody listens on port {port}")


@contextmanager
def launch(folder: Path, *arguments: str, **environment: str) -> Iterator[Cluster]:
    """Replicas that are ready; SIGTERM in the end must end all of them, with status 0."""
    import psutil

    first_port = free_ports(REPLICAS + 1)
    clean = {key: value for key, value in clean_environment().items() if not key.startswith("RAY_")}
    clean |= {
        # Ray's own folder, and the user's: nothing may be left there.
        "HOME": str(folder),
        "NIGHTINGALE_DATA_DIR": str(folder / "data"),
        "NIGHTINGALE_REPLICA_PORT": str(first_port),
        "NIGHTINGALE_MAX_STREAMS": str(ROOM),
        "NIGHTINGALE_MAX_WAITING": str(WAITING),
        "NIGHTINGALE_STALL_SECONDS": "5",
        **environment,
    }
    command = [sys.executable, "-m", "app", "serve", "--port", "0", *arguments]
    started: list[Any] = []
    with start_process(folder, command, ready="", env=clean) as process:
        try:
            cluster = Cluster(process.url, process.popen, process.log, folder, first_port)
            yield cluster
            started = cluster.processes()
            cluster.stop()
            assert process.popen.wait(PATIENCE) == 0, process.log.read_text()[-10_000:]
            _, alive = psutil.wait_procs(started, timeout=PATIENCE)
            assert not alive, alive
            for never in ("Traceback", "never retrieved", "was destroyed but it is pending"):
                assert never not in process.log.read_text(), process.log.read_text()[-10_000:]
        finally:
            if process.popen.poll() is None:
                started = started or psutil.Process(process.popen.pid).children(recursive=True)
            for each in started:
                with suppress(psutil.NoSuchProcess):
                    each.kill()


@dataclass
class Stream:
    """One client in a thread of its own, and what became of it: `ended` is "whole", or how it was broken off."""

    cluster: Cluster
    surface: str
    seed: int
    text: str
    replica: str = ""
    audio: bytearray = field(default_factory=bytearray)
    ended: str = ""

    def __post_init__(self) -> None:
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for_replica(self) -> str:
        assert self._answered.wait(PATIENCE), f"{self.surface} {self.seed}: no answer"
        assert self.replica, self.ended
        return self.replica

    def wait(self) -> Stream:
        self._thread.join(2 * PATIENCE)
        assert not self._thread.is_alive(), f"{self.surface} {self.seed} hangs"
        return self

    def _run(self) -> None:
        try:
            self.ended = self._by_socket() if self.surface == "websocket" else self._by_http()
        except Exception as error:
            self.ended = f"{type(error).__name__}: {error}"
        finally:
            self._answered.set()

    def _by_socket(self) -> str:
        with connect(self.cluster.socket_url, compression=None, open_timeout=PATIENCE, max_size=None) as socket:
            self._answer(socket.response.headers[MARK])
            socket.send(json.dumps({"type": "start", "format": "pcm", "seed": self.seed}))
            socket.send(json.dumps({"type": "text", "text": self.text}))
            socket.send(json.dumps({"type": "end"}))
            for message in socket:
                if isinstance(message, bytes):
                    self.audio += message
                elif json.loads(message)["type"] == "error":
                    return message
            return "whole"

    def _by_http(self) -> str:
        body = {"input": self.text, "response_format": "pcm", "seed": self.seed}
        with httpx.stream("POST", f"{self.cluster.url}/v1/audio/speech", json=body, timeout=2 * PATIENCE) as answer:
            if answer.status_code != 200:
                return answer.read().decode()
            self._answer(answer.headers[MARK])
            for part in answer.iter_bytes():
                self.audio += part
        return "whole"

    def _answer(self, replica: str) -> None:
        self.replica = replica
        self._answered.set()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two replicas."""
    with launch(tmp_path_factory.mktemp("cluster"), "--replicas", str(REPLICAS)) as running:
        yield running
