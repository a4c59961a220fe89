"""Heads, bodies, frames and connections that no client should send, byte by byte, to a server process.

Meanwhile the probes must answer, and afterwards the process must be as it was. A bound on time below tells an end from
a hang, and nothing else.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "app" / "conftest.py"
SECRET = "secret-0123456789"  # noqa: S105
CONNECTIONS = 60
FILES = 400  # descriptors that the process may have before it asks for more
PATIENCE = 60
GET = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY = b'{"input": "Hi.", "response_format": "pcm"}'
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
TEXT, CLOSE, PING, PONG, CONTINUATION = 1, 8, 9, 10, 0


@dataclass
class Server:
    """A process under attack."""

    port: int
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wire(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def talk(self, *pieces: bytes, shut: bool = False, pause: float = 0.0) -> bytes:
        """Send `pieces` with pauses between them; what comes back until the server closes."""
        with self.wire() as wire:
            # A server that has had enough answers while it is still being sent.
            with suppress(ConnectionError):
                for piece in pieces:
                    wire.sendall(piece)
                    time.sleep(pause)
                if shut:
                    wire.shutdown(socket.SHUT_WR)
            return read_all(wire)

    def memory(self) -> int:
        """Bytes that the process has in memory; 0 where the system does not say."""
        status = Path(f"/proc/{self.popen.pid}/status")
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return int(found.group(1)) << 10 if found else 0

    def gauge(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", httpx.get(f"{self.url}/metrics").text, re.MULTILINE)
        assert found is not None
        return float(found.group(1))


def read_all(wire: socket.socket) -> bytes:
    data = bytearray()
    with suppress(ConnectionError):
        while more := wire.recv(65_536):
            data += more
    return bytes(data)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("connections")
    log = folder / "log"
    settings = {
        "HEAD_SECONDS": "2.5", "BODY_SECONDS": "2.5", "STALL_SECONDS": "4", "IDLE_SECONDS": "4",
        "MESSAGES_PER_SECOND": "20", "MAX_CONNECTIONS": str(CONNECTIONS), "DATA_DIR": str(folder / "data"),
        "MAX_INPUT_CHARACTERS": "200000", "DRAIN_SECONDS": "5",
    }  # fmt: skip
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PORT": "0", "PYTHONPATH": str(ROOT)}
    environ |= {f"NIGHTINGALE_{name}": value for name, value in settings.items()}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [sys.executable, str(MODELS)],
            env=environ,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard)),  # noqa: PLW1509
        )
    try:
        deadline = time.monotonic() + 180
        while not (found := re.search(r"running on http://[\d.]+:(\d+)", log.read_text())):
            assert popen.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        server = Server(int(found.group(1)), popen, log)
        wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200)
        # What is loaded with the first request stays.
        httpx.post(f"{server.url}/v1/audio/speech", content=BODY, headers={"content-type": "application/json"})
        yield server
        popen.send_signal(signal.SIGTERM)
        assert popen.wait(60) == 0
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(60)
    # The last test, as it were: nobody filled the log, and no key came into it.
    for never in ("Traceback", "ERROR", SECRET):
        assert never not in log.read_text(), log.read_text()[-5_000:]


@pytest.fixture
def server(attacked: Server) -> Iterator[Server]:
    """It must be alive and no larger afterwards."""
    before = attacked.memory()
    yield attacked
    assert httpx.get(f"{attacked.url}/livez").status_code == 200
    wait_until(lambda: attacked.memory() - before < 48 << 20)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


MEBIBYTE = 1 << 20
UPGRADE = (
    b"Host: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
SOCKET = b"GET /v1/audio/stream HTTP/1.1\r\n" + UPGRADE


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        pytest.param(GET + b"A: " + b"a" * 20 * MEBIBYTE + b"\r\n\r\n", 431, id="one header of 20 MB"),
        pytest.param(GET + b"A: b\r\n" * 300_000 + b"\r\n", 431, id="300,000 headers"),
        pytest.param(GET + b"A: b\r\n" * 100 + b"\r\n", 431, id="101 headers"),
        pytest.param(GET + (b"A: " + b"a" * 1_000 + b"\r\n") * 70 + b"\r\n", 431, id="70 headers of 1 kB"),
        pytest.param(GET + b"a" * 20 * MEBIBYTE, 431, id="a name of 20 MB"),
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, id="a long path"),
        pytest.param(b"GET /?" + b"a" * 20 * MEBIBYTE, 414, id="a query of 20 MB"),
        pytest.param(b"\r\n" * 5 * MEBIBYTE, 431, id="nothing but line ends"),
        pytest.param(b"A" * MEBIBYTE, 400, id="no method"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", 400, id="TLS"),
        pytest.param(CHUNKED + b"1;" + b"x" * MEBIBYTE + b"\r\na\r\n", 400, id="an extension of a chunk"),
        pytest.param(CHUNKED + b"1;x\r\na\r\n" * 100_000, 400, id="extensions of chunks"),
        pytest.param(CHUNKED + b"1\r\na\r\n" * 200_000, 400, id="chunks of a byte"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\n" + b"A: b\r\n" * 50_000 + b"\r\n", 400, id="trailers"),
        pytest.param(CHUNKED + b"zz\r\n", 400, id="no length of a chunk"),
        pytest.param(SOCKET + b"A: " + b"a" * 9_000 + b"\r\n\r\n", 431, id="a handshake with a long header"),
        pytest.param(SOCKET + b"Content-Length: 5\r\n\r\nhello", 400, id="a handshake with a body"),
        pytest.param(POST + b"Content-Length: 50000000\r\n\r\n" + b"a" * 5 * MEBIBYTE, 413, id="a long body"),
    ],
)
def test_what_is_too_large_is_refused_while_it_comes(server: Server, sent: bytes, told: int) -> None:
    answer = server.talk(sent)
    assert status(answer) == told, answer[:200]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["message"]


def test_ordinary_requests_come_through(server: Server) -> None:
    end = GET + b"Connection: close\r\n\r\n"
    assert status(server.talk(GET + b"A: b\r\n" * 90 + b"Connection: close\r\n\r\n")) == 200
    assert status(server.talk(*(end[at : at + 1] for at in range(len(end))))) == 200
    # Trailers are no headers, and a chunk may be small.
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
    assert status(server.talk(CHUNKED + chunks + b"0\r\nContent-Type: text/plain\r\n\r\n", shut=True)) == 200
    with server.wire() as wire:
        wire.sendall((GET + b"\r\n") * 4_000 + end)
        # Others need not wait for all of these.
        assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
        assert read_all(wire).count(b"HTTP/1.1 200 OK") == 4_001
    # A body that nobody asked for.
    assert status(server.talk(GET + b"Content-Length: 50000000\r\n\r\n", b"a" * 5 * MEBIBYTE)) == 200


@pytest.mark.parametrize(
    ("first", "more", "told"),
    [
        pytest.param(b"", b"", 0, id="nothing"),
        pytest.param(GET, b"", 408, id="half a head"),
        pytest.param(GET, b"A: b\r\n", 408, id="header by header"),
        pytest.param(b"G", b"", 408, id="one byte"),
        pytest.param(b"", b"\r\n", 0, id="line ends"),
        pytest.param(POST + b"Content-Length: 1000\r\n\r\n", b"", 408, id="no body"),
        pytest.param(POST + b"Content-Length: 1000\r\n\r\n", b"a", 408, id="byte by byte"),
        pytest.param(CHUNKED, b"1\r\na\r\n", 408, id="chunk by chunk"),
        pytest.param(GET + b"\r\n" + GET, b"A: b\r\n", 200, id="the second head"),
        pytest.param(
            b"POST /v1/audio/voices HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n"
            b"Content-Type: multipart/form-data; boundary=B\r\n\r\n--B\r\n",
            b"a",
            408,
            id="an upload",
        ),
    ],
)
def test_what_comes_too_slowly_is_refused(server: Server, first: bytes, more: bytes, told: int) -> None:
    done = threading.Event()
    with server.wire() as wire:
        wire.sendall(first)

        def drip() -> None:
            with suppress(OSError):
                while more and not done.wait(0.1):
                    wire.sendall(more)

        dripping = threading.Thread(target=drip)
        dripping.start()
        answer = read_all(wire)
        done.set()
        dripping.join()
    assert status(answer) == told
    if told == 200:
        assert b"HTTP/1.1 408 " in answer


def test_a_body_may_be_slow_if_it_is_not_too_slow(server: Server) -> None:
    text = json.dumps({"input": "Hi. " * 10_000, "response_format": "pcm", "voice": "nobody"}).encode()
    head = POST + b"Content-Length: %d\r\n\r\n" % len(text)
    answer = server.talk(head, *(text[at : at + 2_000] for at in range(0, len(text), 2_000)), shut=True, pause=0.15)
    assert b"unknown_voice" in answer


def test_a_client_that_shuts_its_side_down_gets_its_answer(server: Server) -> None:
    request = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    for sent, count in ((GET + b"\r\n", 1), ((GET + b"\r\n") * 50, 50), (request, 1), (request * 3, 3)):
        answer = server.talk(sent, shut=True)
        assert answer.count(b"HTTP/1.1 200 OK") == count
    # One that takes long; a client of the standard library knows the interim answer.
    slow = json.dumps({"input": "Hi. Ho. Ha.", "voice": "slow", "response_format": "wav"}).encode()
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    client.request("POST", "/v1/audio/speech", slow, {"content-type": "application/json"})
    client.sock.shutdown(socket.SHUT_WR)
    answered = client.getresponse()
    assert answered.status == 200
    assert len(answered.read()) > 1_000
    client.close()
    # Half a request has no answer, and does not wait for one.
    assert server.talk(GET, shut=True) == b""


@pytest.mark.parametrize("shut", [False, True])
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_client_that_is_gone_is_noticed(server: Server, shut: bool, version: bytes) -> None:
    body = b'{"input": "Hi.", "voice": "gated"}'
    with server.wire() as wire:
        wire.sendall(POST.replace(b"HTTP/1.1", version) + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: server.gauge("nightingale_active_streams") == 1)
        if shut:
            wire.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
    wait_until(lambda: server.gauge("nightingale_active_streams") == 0)


def test_every_page_and_list_answers_to_head(server: Server) -> None:
    described = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    paths = [path for path, methods in described.items() if "get" in methods and "{" not in path]
    paths += [
        "/",
        "/docs",
        "/dashboard",
        "/openapi.json",
        "/v1/models/tone",
        "/v1/audio/voices/steady",
        "/web/page.css",
    ]
    assert {"/livez", "/readyz", "/metrics", "/v1/models"} <= set(paths)
    for path in paths:
        got, asked = httpx.get(server.url + path), httpx.head(server.url + path)
        assert asked.status_code == got.status_code, path
        assert asked.headers["content-type"] == got.headers["content-type"], path
        assert asked.content == b""
    assert httpx.head(f"{server.url}/v1/audio/speech").status_code == 405
    assert "HEAD" in httpx.post(f"{server.url}/livez").headers["allow"]


def frame(payload: bytes = b"", opcode: int = TEXT, *, fin: bool = True) -> bytes:
    """A client's (RFC 6455, section 5.2), masked with zeros."""
    size = struct.pack("B", 0x80 | len(payload)) if len(payload) < 126 else struct.pack(">BH", 0xFE, len(payload))
    return struct.pack("B", (0x80 if fin else 0) | opcode) + size + bytes(4) + payload


def shaken(server: Server) -> socket.socket:
    wire = server.wire()
    wire.sendall(SOCKET + b"\r\n")
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += wire.recv(1)
    assert b" 101 " in answer
    return wire


def read_close(wire: socket.socket) -> int:
    """The code of the close frame that the server sends in the end, or 0."""
    data = b""
    with suppress(ConnectionError):
        while not close_code(data) and (more := wire.recv(65_536)):
            data += more
    return close_code(data)


def close_code(data: bytes) -> int:
    """Return the code of the close frame in the server's bytes; 0 without one."""
    at = 0
    while at + 2 <= len(data):
        size, start = data[at + 1], at + 2
        if size == 126:
            size, start = struct.unpack(">H", data[at + 2 : at + 4])[0], at + 4
        if data[at] & 0x0F == CLOSE and len(data) >= start + 2:
            return int(struct.unpack(">H", data[start : start + 2])[0])
        at = start + size
    return 0


@pytest.mark.parametrize(
    ("before", "flood"),
    [
        pytest.param(b"", frame(b"", PING), id="empty pings"),
        pytest.param(b"", frame(b"p" * 125, PING), id="pings"),
        pytest.param(b"", frame(b"", PONG), id="pongs"),
        pytest.param(frame(b"", fin=False), frame(b"", CONTINUATION, fin=False), id="empty fragments"),
        pytest.param(frame(b"", fin=False), frame(b"a", CONTINUATION, fin=False), id="fragments of a byte"),
        pytest.param(b"", frame(b"a", fin=False) + frame(b"", CONTINUATION), id="messages in two pieces"),
        pytest.param(b"", frame(b""), id="empty texts"),
        pytest.param(b"", frame(b"", 2), id="empty bytes"),
        pytest.param(frame(b"", fin=False), frame(b"", PING), id="pings inside of a message"),
    ],
)
def test_a_flood_of_frames_closes_its_socket_alone(server: Server, before: bytes, flood: bytes) -> None:
    with shaken(server) as wire:
        wire.sendall(frame(b'{"type": "start"}'))
        sent = threading.Thread(target=send_all, args=(wire, before + flood * 100_000))
        sent.start()
        assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
        # An empty text is no message of the protocol, which may say so first.
        assert read_close(wire) == 1008
        read_all(wire)
        sent.join()


def send_all(wire: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        wire.sendall(data)


@pytest.mark.parametrize("drip", [b"\x81", b"\x81\xfe\xff", frame(b"ab", fin=False), frame(b"x" * 90)[:50]])
def test_a_frame_that_does_not_end_is_silence(server: Server, drip: bytes) -> None:
    with shaken(server) as wire:
        wire.sendall(drip)
        assert read_close(wire) == 1008


def test_frames_that_come_with_the_handshake_are_read(server: Server) -> None:
    with server.wire() as wire:
        wire.sendall(SOCKET + b"\r\n" + frame(b'{"type": "start"}') + frame(b"", PING) + frame(b'{"type": "end"}'))
        data = b""
        while bytes([0x80 | PONG, 0]) not in data or b'"ready"' not in data:
            data += wire.recv(65_536)
    assert data.startswith(b"HTTP/1.1 101 ")


def test_refused_handshakes_are_answered_and_no_key_is_logged(server: Server) -> None:
    url = server.url.replace("http", "ws", 1)
    with connect(f"{url}/v1/audio/stream?api_key={SECRET}"):
        pass
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(f"{url}/v1/audio/stream?token={SECRET}", origin="http://a.b"),
    ):
        pass
    with pytest.raises(InvalidStatus) as refused, connect(f"{url}/v1/speak?model=a%0d%0aX:1%e2%82%ac/b&key={SECRET}"):
        pass
    answer = refused.value.response
    assert answer.status_code == 404
    assert "\\r\\nX:1" in answer.headers["dg-error"]
    for path in ("/nowhere", "/v1/models"):
        with pytest.raises(InvalidStatus, match=r"40[34]"), connect(f"{url}{path}?key={SECRET}"):
            pass


def test_close_reasons_fit(server: Server) -> None:
    with connect(f"{server.url.replace('http', 'ws', 1)}/v1/audio/stream") as opened:
        opened.send(json.dumps({"type": "start", "voice": "鳥" * 300}))
        with pytest.raises(ConnectionClosed):
            while True:
                opened.recv(PATIENCE)
        assert opened.close_code == 1008


@pytest.mark.parametrize("path", ["/openapi.json", "/metrics"])
def test_who_reads_no_answer_is_dropped(server: Server, path: str) -> None:
    with unreading(server) as wire:
        wire.settimeout(1)
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        # Until no more is taken of it, or the end.
        send_all(wire, request * 100_000)
        wait_until(lambda: wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0)


def test_who_reads_no_frame_is_dropped(server: Server) -> None:
    with unreading(server) as wire:
        wire.sendall(SOCKET + b"\r\n" + frame(b'{"type": "start", "format": "pcm"}'))
        text = {"type": "text", "text": "This is a sentence that takes a while. " * 80}
        for _ in range(8):
            wire.sendall(frame(json.dumps(text).encode()) + frame(b'{"type": "flush"}'))
        wait_until(lambda: wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0)
    wait_until(lambda: server.gauge("nightingale_active_streams") == 0)


@contextmanager
def unreading(server: Server) -> Iterator[socket.socket]:
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        wire.settimeout(PATIENCE)
        wire.connect(("127.0.0.1", server.port))
        yield wire


@contextmanager
def crowd(server: Server, count: int, sent: bytes = b"") -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            send_all(stack.enter_context(server.wire()), sent)
        yield


def speak(server: Server) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/audio/speech", json={"input": "Hi.", "response_format": "pcm"}, timeout=PATIENCE
    )


@pytest.mark.parametrize("sent", [b"", b"G", GET, POST + b"Content-Length: 1000\r\n\r\n{"])
def test_a_crowd_that_asks_nothing_keeps_nobody_out(server: Server, sent: bytes) -> None:
    with crowd(server, 3 * CONNECTIONS, sent):
        assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
        assert speak(server).status_code == 200
        with connect(f"{server.url.replace('http', 'ws', 1)}/v1/audio/stream"):
            pass
    assert "connections are taken" in server.log.read_text()


def test_a_full_house_answers_probes(server: Server) -> None:
    body = b'{"input": "Hi.", "voice": "gated"}'
    busy = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with crowd(server, CONNECTIONS, busy):
        wait_until(lambda: server.gauge("nightingale_active_streams") == CONNECTIONS)
        for path in ("/livez", "/metrics", "/livez"):
            assert httpx.get(server.url + path, timeout=PATIENCE).status_code == 200
        refused = speak(server)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert "retry-after" in refused.headers
        with (
            pytest.raises(InvalidStatus, match="503"),
            connect(f"{server.url.replace('http', 'ws', 1)}/v1/audio/stream"),
        ):
            pass
        # Silent ones take no probe's place.
        with crowd(server, 3 * CONNECTIONS):
            assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
    wait_until(lambda: server.gauge("nightingale_active_streams") == 0)
    assert speak(server).status_code == 200


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what another process has")
def test_the_process_may_open_more_files_than_it_was_born_with(server: Server) -> None:
    soft, hard = resource.prlimit(server.popen.pid, resource.RLIMIT_NOFILE)
    assert soft == min(hard, 65_536) or hard == resource.RLIM_INFINITY
    assert soft > FILES
