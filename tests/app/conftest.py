"""A catalog of stand-ins, and a server around them, on a socket in a thread of its own."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import uvicorn
from websockets.sync.client import ClientConnection

from app.application import create_app
from app.config import Settings, load_settings
from app.engine import admission
from app.errors import UnknownModelError
from app.server_process import configure, serve
from models.contract import Description, WeightsError, WeightsMissingError
from tests.app.standins import Ear, Parrot, Scribe, Shout, Tone

# Seconds to wait for what must come, on a machine that is as busy as can be.
PATIENCE = 60.0


@dataclass(frozen=True)
class Info:
    name: str
    status: str = "ready"
    description: str = "a tone"
    license: str = "Apache-2.0"
    aliases: tuple[str, ...] = ()
    install_command: str | None = None
    kind: str = "text-to-speech"
    install_hint: str = ""
    cloning: bool = False
    commercial_use: bool = True


def absent(name: str, **more: str) -> Info:
    """Return a model that is not installed."""
    command = f"nightingale models pull {name}"
    return Info(name, "absent", install_command=command, install_hint=f"Install them with: {command}", **more)  # type: ignore[arg-type]


@dataclass
class ToneCatalog:
    """Models: tone (default), tone-two (loads on demand), parrot (clones), absent, corrupt; two that translate; two
    that recognize speech; one that writes text.

    `translator`, `recognizer` and `writer` are the ones of requests that name none.
    """

    tone: Tone = field(default_factory=Tone)
    second: Tone = field(default_factory=Tone)
    shout: Shout = field(default_factory=Shout)
    parrot: Parrot = field(default_factory=Parrot)
    ear: Ear = field(default_factory=Ear)
    scribe: Scribe = field(default_factory=Scribe)
    translator: str = "absent-translator"
    recognizer: str | None = "absent-ear"
    writer: str | None = "scribe"
    # Loads the model `ear`, on the thread of models.
    load_ear: Callable[[], Any] | None = None
    release: str = "1"

    def revision(self, name: str) -> str:
        return f"{name} {self.release}"

    def models(self) -> list[Info]:
        return [
            Info("tone", aliases=("t",)),
            Info("tone-two"),
            Info("parrot", cloning=True),
            absent("absent"),
            Info("corrupt"),
            Info("shout", kind="translation"),
            absent("absent-translator", kind="translation"),
            Info("ear", kind="speech-recognition"),
            absent("absent-ear", kind="speech-recognition"),
            Info("scribe", kind="text-generation"),
        ]

    def default(self) -> str:
        return "tone"

    def default_translator(self) -> str:
        return self.translator

    def default_recognizer(self) -> str | None:
        return self.recognizer

    def default_language_model(self) -> str | None:
        return self.writer

    def __contains__(self, name: str) -> bool:
        return name in {info.name for info in self.models()}

    def judges(self, recognizer: str, model: str) -> bool:
        return model != "tone-two"

    def resolve(self, name: str | None) -> str:
        if name in (None, "t"):
            return "tone"
        if name not in {info.name for info in self.models()}:
            accepted = ", ".join(info.name for info in self.models())
            raise UnknownModelError(f"Unknown model '{name}'; accepted are: {accepted}.")
        return name

    def kind(self, name: str) -> str:
        return next(info.kind for info in self.models() if info.name == name)

    def present(self, name: str) -> bool:
        return not name.startswith("absent")

    def size(self, name: str) -> int:
        return 1_000_000

    def describe(self, name: str) -> Description:
        return Description.of(self.load(name))

    def load(self, name: str) -> Any:
        if name == "ear" and self.load_ear is not None:
            return self.load_ear()
        if name.startswith("absent"):
            raise WeightsMissingError(f"The weights of model '{name}' are not on this machine.")
        if name == "corrupt":
            raise WeightsError("/srv/secret place/corrupt/a.safetensors: array 'a' has shape (1,), expected (2,)")
        return getattr(self, name, self.second)


@dataclass
class Running:
    """A server on a real socket, and the models inside: `running.tone` is that of its catalog."""

    url: str
    catalog: ToneCatalog
    server: uvicorn.Server
    thread: threading.Thread
    # Port on which it listens for Wyoming's clients, if it does.
    wyoming_port: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)

    @property
    def gates(self) -> list[threading.Event]:
        """What holds up the models while it is not set."""
        models = (self.tone, self.second, self.shout, self.parrot, self.ear, self.scribe)
        return [*(model.gate for model in models), self.parrot.hold]

    @property
    def services(self) -> Any:
        return self.server.config.app.state.services

    @property
    def websocket_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/v1/audio/stream"

    def metrics(self) -> str:
        return httpx.get(self.url + "/metrics").raise_for_status().text

    def count(self, series: str) -> float:
        """Return the sum of all samples whose lines begin with `series`; all servers of this process share them."""
        lines = (line.rpartition(" ") for line in self.metrics().splitlines())
        return sum(float(value) for name, _, value in lines if name.startswith(series))

    def idle(self) -> bool:
        """Whether no stream is active and no job waits."""
        samples = re.findall(r"^nightingale_(?:active_streams|queue_depth)\S* (\S+)$", self.metrics(), re.MULTILINE)
        return not any(map(float, samples))

    def call(self, function: Callable[[], object]) -> None:
        """Call `function` in the event loop of the server."""
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self.server.servers[0].get_loop().call_soon_threadsafe(run)
        assert done.wait(PATIENCE)

    def take(self, client: ClientConnection) -> None:
        """Wait until the server has taken what `client` sent: it reads a socket before it answers its ping."""
        assert client.ping().wait(PATIENCE)
        for _ in range(5):  # turns of its event loop
            assert httpx.get(self.url + "/livez").status_code == 200


class WyomingPort(logging.Handler):
    """The port that the log of a server names for Wyoming's clients."""

    port = 0

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r"Wyoming listens on tcp://127\.0\.0\.1:(\d+)", record.getMessage()):
            self.port = int(found.group(1))


def start(settings: Settings, catalog: ToneCatalog, *, ready: bool = True) -> Running:
    """Serve until `stop`; with `ready`, wait until every model is warm."""
    config = configure(create_app(settings, catalog), settings.model_copy(update={"port": 0}))
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    wyoming, log = WyomingPort(), logging.getLogger("app.server.wyoming.server")
    log.setLevel(logging.INFO)
    log.addHandler(wyoming)
    thread.start()
    assert wait_until(lambda: server.started), "the server did not start"
    log.removeHandler(wyoming)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    running = Running(url, catalog, server, thread, wyoming.port)
    answer = ""

    def answers() -> bool:
        nonlocal answer
        response = httpx.get(running.url + "/readyz")
        answer = response.text
        return response.status_code == 200 or not ready or '"status":"failed"' in answer

    assert wait_until(answers) and (not ready or '"status":"failed"' not in answer), answer
    return running


def stop(running: Running) -> None:
    for gate in running.gates:
        gate.set()
    running.server.should_exit = True
    running.thread.join(PATIENCE)
    assert not running.thread.is_alive(), "the server did not stop"


def rest(running: Running) -> None:
    """Wait until the server has ended what an earlier test left behind."""
    for gate in running.gates:
        gate.set()
    assert wait_until(running.idle), running.metrics()


def fresh(running: Running) -> Running:
    """Return a shared server at rest, whose models remember nothing, with its gates shut."""
    rest(running)
    tone, shout, ear, scribe = running.tone, running.shout, running.ear, running.scribe
    heard, spoken = (ear.requests, ear.says), (tone.begun, tone.computed, running.parrot.requests)
    for records in (*heard, *spoken, shout.batches, scribe.requests):
        records.clear()
    for model in (tone, shout, ear, scribe):
        model.gate.clear()
    return running


StartServer = Callable[..., Running]
WaitUntil = Callable[..., bool]
Leave = Callable[..., None]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Start servers with settings of their own; all are stopped in the end."""
    started: list[Running] = []
    fields = {each.name for each in dataclasses.fields(ToneCatalog)}

    def begin(*, ready: bool = True, **options: Any) -> Running:
        """Options are fields of the catalog, and settings."""
        catalog = ToneCatalog(**{name: value for name, value in options.items() if name in fields})
        settings = {name: value for name, value in options.items() if name not in fields}
        running = start(Settings.model_validate(settings), catalog, ready=ready)
        started.append(running)
        return running

    yield begin
    for running in started:
        stop(running)


# Servers for tests that leave no trace in them: settings, and fields of their catalogs.
LIMITS = {"max_input_characters": 2_000, "max_body_bytes": 65_536, "wyoming_port": 0}
LONG_TEXTS = {"max_translate_characters": 400_000, "max_translate_texts": 10_000, "max_body_bytes": 1 << 20}
RECORDINGS = {"recognition_gate": False, "recognition_seconds": 60.0, "max_recording_bytes": 4 << 20}
SHARED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "server": (LIMITS, {}),
    "translating": (LONG_TEXTS, {"translator": "shout"}),
    "hearing": (LIMITS | RECORDINGS | {"preload": ("parrot",)}, {"recognizer": "ear", "translator": "shout"}),
    "cloning": ({"preload": ("parrot",)}, {}),
}


@pytest.fixture(scope="session")
def shared_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """`shared_servers(name)`: a server of SHARED, which starts when it is asked for first."""
    started: dict[str, Running] = {}

    def find(name: str) -> Running:
        if name not in started:
            settings, catalog = SHARED[name]
            own = {"data_dir": tmp_path_factory.mktemp("data")} if name == "cloning" else {}
            started[name] = start(Settings.model_validate(settings | own), ToneCatalog(**catalog))
        return started[name]

    yield find
    for running in started.values():
        stop(running)


@pytest.fixture
def server(shared_servers: Callable[[str], Running]) -> Running:
    """The shared server, for one test."""
    return fresh(shared_servers("server"))


@pytest.fixture
def translating(shared_servers: Callable[[str], Running]) -> Running:
    """The shared server whose default translator is `shout`."""
    return fresh(shared_servers("translating"))


@pytest.fixture(scope="session")
def shared_hearing_server(shared_servers: Callable[[str], Running]) -> Running:
    """The shared server whose default recognizer is `ear`, without a gate: tones are heard."""
    return shared_servers("hearing")


@pytest.fixture
def hearing(shared_hearing_server: Running) -> Running:
    """The same, for one test."""
    return fresh(shared_hearing_server)


@pytest.fixture
def cloning(shared_servers: Callable[[str], Running]) -> Running:
    """The shared server with `parrot` warm, for tests that leave no voice in it."""
    return fresh(shared_servers("cloning"))


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> WaitUntil:
    """`wait_until`, for test files: they cannot import this one."""
    return wait_until


@pytest.fixture
def leave() -> Leave:
    """`leave(url, body, when)`: send a request, and close its connection as soon as `when()` holds.

    The body is sent as JSON, or as it is if it is bytes of another `kind`.
    """

    def post(url: str, body: object, when: Callable[[], object], kind: str = "application/json") -> None:
        address, path = url.removeprefix("http://").split("/", 1)
        host, port = address.split(":")
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        with socket.create_connection((host, int(port)), PATIENCE) as client:
            client.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            assert wait_until(lambda: bool(when())), "it did not come so far"

    return post


class Clock:
    """A monotonic clock that a test moves on: `clock.now += 1.0`."""

    now: float = 1_000.0

    perf_counter = staticmethod(time.perf_counter)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def quota_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of quotas of keys, which stands still."""
    clock = Clock()
    monkeypatch.setattr(admission, "time", clock)
    return clock


@pytest.fixture
def silence_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of silence on WebSockets, which stands still."""
    clock = Clock()
    modules = [sys.modules[name] for name in sys.modules if name.startswith("app.server.")]
    for module in modules:
        if "active_at" in inspect.getsource(module) and hasattr(module, "time"):
            monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def make_catalog() -> type[ToneCatalog]:
    """`ToneCatalog`, for test files: they cannot import this one."""
    return ToneCatalog


@pytest.fixture
def tone() -> Tone:
    """A synthesizer to be changed and given to `start_server`."""
    return Tone()


@pytest.fixture
def parrot() -> Parrot:
    """A synthesizer that clones, to be changed and given to `start_server`."""
    return Parrot()


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return condition()


if __name__ == "__main__":
    # A process of its own, for tests of signals: settings come from its environment. SIGUSR1 opens the gate; SIGUSR2
    # begins a thread that never ends, of the kind that Python waits for when it exits.
    choices = load_settings(None)
    catalog = ToneCatalog(recognizer=choices.recognition_model or "absent-ear")
    signal.signal(signal.SIGUSR1, lambda *_: catalog.tone.gate.set())
    signal.signal(signal.SIGUSR2, lambda *_: ThreadPoolExecutor(1, "stuck").submit(threading.Event().wait))
    serve(choices, catalog)
