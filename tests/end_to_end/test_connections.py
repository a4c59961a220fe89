"""Heads, bodies, frames and connections that no client should send, byte by byte, to a server process.

Meanwhile the probes must answer, and afterwards the process must be as it was. A bound on time below tells an end from
a hang, and nothing else.
"""

from __future__ import annotations

import http.client
import json
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.clients import speak, websocket
from tests.processes import PATIENCE, Process, metric, serve_stand_ins, wait_until
from tests.wire import CONTINUATION, PING, PONG, Wire, frame, upgrade

SECRET = "secret-0123456789"  # noqa: S105
CONNECTIONS = 60
FILES = 400  # descriptors that the process may have before it asks for more
GET = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY = b'{"input": "Hi.", "response_format": "pcm"}'
GATED = POST + b'Content-Length: 34\r\n\r\n{"input": "Hi.", "voice": "gated"}'
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
FORM = POST.replace(b"speech", b"transcriptions").replace(b"application/json", b"multipart/form-data; boundary=x")
PART = b'Content-Length: 500000\r\n\r\n--x\r\nContent-Disposition: form-data; name="'
ACTIVE = "nightingale_active_streams"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    settings = {
        "HEAD_SECONDS": "2.5", "BODY_SECONDS": "2.5", "STALL_SECONDS": "4", "IDLE_SECONDS": "4",
        "MESSAGES_PER_SECOND": "20", "MAX_CONNECTIONS": str(CONNECTIONS), "MAX_INPUT_CHARACTERS": "200000",
        "DRAIN_SECONDS": "5",
    }  # fmt: skip
    environment = {f"NIGHTINGALE_{name}": value for name, value in settings.items()}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    more = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))}
    with serve_stand_ins(tmp_path_factory.mktemp("connections"), more=more, **environment) as server:
        # What is loaded with the first request stays.
        speak(server.url)
        yield server
    # The last test, as it were: nobody filled the log, and no key came into it.
    log = server.log.read_text()
    assert [never for never in ("Traceback", "ERROR", SECRET) if never in log] == [], log[-5_000:]


@pytest.fixture
def server(attacked: Process) -> Iterator[Process]:
    """It must be alive and no larger afterwards."""
    before = attacked.memory()
    yield attacked
    assert httpx.get(f"{attacked.url}/livez").status_code == 200
    wait_until(lambda: attacked.memory() - before < 48 << 20)


def talk(server: Process, *pieces: bytes, shut: bool = False, pause: float = 0.0) -> bytes:
    """Send `pieces` with pauses between them, and return what comes back until the server closes."""
    with Wire(server.address) as wire:
        for piece in pieces:
            wire.try_to_send(piece)
            time.sleep(pause)
        if shut:
            with suppress(OSError):
                wire.socket.shutdown(socket.SHUT_WR)
        return wire.read_all()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


MEBIBYTE = 1 << 20
SOCKET = upgrade(("127.0.0.1", 80)).removesuffix(b"\r\n")


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
        pytest.param(FORM + PART + b"a" * 400_000, 400, id="a form that is refused before its end"),
    ],
)
def test_what_is_too_large_is_refused_while_it_comes(server: Process, sent: bytes, told: int) -> None:
    answer = talk(server, sent)
    assert status(answer) == told, answer[:200]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["message"]


def test_ordinary_requests_come_through(server: Process) -> None:
    end = GET + b"Connection: close\r\n\r\n"
    assert status(talk(server, GET + b"A: b\r\n" * 90 + b"Connection: close\r\n\r\n")) == 200
    assert status(talk(server, *(end[at : at + 1] for at in range(len(end))))) == 200
    # Trailers are no headers, and a chunk may be small.
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
    assert status(talk(server, CHUNKED + chunks + b"0\r\nContent-Type: text/plain\r\n\r\n", shut=True)) == 200
    with Wire(server.address) as wire:
        wire.send((GET + b"\r\n") * 4_000 + end)
        # Others need not wait for all of these.
        assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
        assert wire.read_all().count(b"HTTP/1.1 200 OK") == 4_001
    # A body that nobody asked for.
    assert status(talk(server, GET + b"Content-Length: 50000000\r\n\r\n", b"a" * 5 * MEBIBYTE)) == 200


def test_a_body_may_be_slow_if_it_is_not_too_slow(server: Process) -> None:
    text = json.dumps({"input": "Hi. " * 10_000, "response_format": "pcm", "voice": "nobody"}).encode()
    head = POST + b"Content-Length: %d\r\n\r\n" % len(text)
    answer = talk(server, head, *(text[at : at + 2_000] for at in range(0, len(text), 2_000)), shut=True, pause=0.15)
    assert b"unknown_voice" in answer


def test_a_client_that_shuts_its_side_down_gets_its_answer(server: Process) -> None:
    request = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    for sent, count in ((GET + b"\r\n", 1), ((GET + b"\r\n") * 50, 50), (request, 1), (request * 3, 3)):
        answer = talk(server, sent, shut=True)
        assert answer.count(b"HTTP/1.1 200 OK") == count
    # One that takes long; a client of the standard library knows the interim answer.
    slow = json.dumps({"input": "Hi. Ho. Ha.", "voice": "slow", "response_format": "wav"}).encode()
    client = http.client.HTTPConnection(*server.address, timeout=PATIENCE)
    client.request("POST", "/v1/audio/speech", slow, {"content-type": "application/json"})
    client.sock.shutdown(socket.SHUT_WR)
    answered = client.getresponse()
    assert answered.status == 200
    assert len(answered.read()) > 1_000
    client.close()
    # Half a request has no answer, and does not wait for one.
    assert talk(server, GET, shut=True) == b""


@pytest.mark.parametrize("shut", [False, True])
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_client_that_is_gone_is_noticed(server: Process, shut: bool, version: bytes) -> None:
    with Wire(server.address) as wire:
        wire.send(GATED.replace(b"HTTP/1.1", version))
        wait_until(lambda: metric(server.url, ACTIVE) == 1)
        if shut:
            wire.socket.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
    wait_until(lambda: metric(server.url, ACTIVE) == 0)


def test_every_page_and_list_answers_to_head(server: Process) -> None:
    described = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    paths = [path for path, methods in described.items() if "get" in methods and "{" not in path]
    paths += ["/", "/docs", "/dashboard", "/openapi.json", "/web/page.css"]
    paths += ["/v1/models/tone", "/v1/audio/voices/steady"]
    assert {"/livez", "/readyz", "/metrics", "/v1/models"} <= set(paths)
    with httpx.Client(base_url=server.url) as client:
        for path in paths:
            got, asked = client.get(path), client.head(path)
            assert asked.status_code == got.status_code, path
            assert asked.headers["content-type"] == got.headers["content-type"], path
            assert asked.content == b""
    assert httpx.head(f"{server.url}/v1/audio/speech").status_code == 405
    assert "HEAD" in httpx.post(f"{server.url}/livez").headers["allow"]


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
def test_a_flood_of_frames_closes_its_socket_alone(server: Process, before: bytes, flood: bytes) -> None:
    with Wire(server.address) as wire:
        wire.handshake()
        wire.say({"type": "start"})
        sent = threading.Thread(target=wire.try_to_send, args=(before + flood * 100_000,))
        sent.start()
        assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
        # An empty text is no message of the protocol, which may say so first.
        assert wire.closed_with() == 1008
        wire.read_all()
        sent.join()


def test_frames_that_come_with_the_handshake_are_read(server: Process) -> None:
    with Wire(server.address) as wire:
        wire.send(SOCKET + b"\r\n" + frame(b'{"type": "start"}') + frame(b"", PING) + frame(b'{"type": "end"}'))
        data = b""
        while bytes([0x80 | PONG, 0]) not in data or b'"ready"' not in data:
            data += wire.socket.recv(65_536)
    assert data.startswith(b"HTTP/1.1 101 ")


def refused(address: str, status: str, **options: str) -> InvalidStatus:
    with pytest.raises(InvalidStatus, match=status) as caught, connect(address, **options):
        pass
    return caught.value


def test_refused_handshakes_are_answered_and_no_key_is_logged(server: Process) -> None:
    with connect(f"{server.socket_url}?api_key={SECRET}"):
        pass
    refused(f"{server.socket_url}?token={SECRET}", "403", origin="http://a.b")
    answer = refused(websocket(server.url, f"/v1/speak?model=a%0d%0aX:1%e2%82%ac/b&key={SECRET}"), "404").response
    assert "\\r\\nX:1" in answer.headers["dg-error"]
    for path in ("/nowhere", "/v1/models"):
        refused(websocket(server.url, f"{path}?key={SECRET}"), "40[34]")


def test_close_reasons_fit(server: Process) -> None:
    # The limit of bytes lies within a character.
    with connect(server.socket_url) as opened:
        opened.send(json.dumps({"type": "start", "voice": "a" + "鳥" * 300}))
        with pytest.raises(ConnectionClosed):
            while True:
                opened.recv(PATIENCE)
        assert opened.close_code == 1008


UPLOAD = FORM.replace(b"transcriptions", b"voices") + b"Content-Length: 1000000\r\n\r\n--x\r\n"
# What a client sends at first, what it then sends ten times a second, and the status that it gets.
SLOW = {
    "nothing": (b"", b"", 0),
    "half a head": (GET, b"", 408),
    "header by header": (GET, b"A: b\r\n", 408),
    "one byte": (b"G", b"", 408),
    "line ends": (b"", b"\r\n", 0),
    "no body": (POST + b"Content-Length: 1000\r\n\r\n", b"", 408),
    "byte by byte": (POST + b"Content-Length: 1000\r\n\r\n", b"a", 408),
    "chunk by chunk": (CHUNKED, b"1\r\na\r\n", 408),
    "the second head": (GET + b"\r\n" + GET, b"A: b\r\n", 200),
    "an upload": (UPLOAD, b"a", 408),
}
# Frames that do not end.
UNFINISHED = [b"\x81", b"\x81\xfe\xff", frame(b"ab", fin=False), frame(b"x" * 90)[:50]]


def come_slowly(server: Process, first: bytes, more: bytes, expected: int) -> None:
    """Send so slowly that the server refuses it."""
    done = threading.Event()
    with Wire(server.address) as wire:
        wire.send(first)

        def drip() -> None:
            while more and not done.wait(0.1):
                wire.try_to_send(more)

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            answer = wire.read_all()
        finally:
            done.set()
            dripping.join()
    assert status(answer) == expected
    assert expected != 200 or b"HTTP/1.1 408 " in answer


def begin_a_frame(server: Process, beginning: bytes) -> None:
    """Send half a frame, which is silence."""
    with Wire(server.address) as wire:
        wire.handshake()
        wire.send(beginning)
        assert wire.closed_with() == 1008


def read_no_answer(server: Process, path: str) -> None:
    with Wire(server.address, small=True) as wire:
        wire.socket.settimeout(1)
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        # Until no more is taken of it, or the end.
        wire.try_to_send(request * 100_000)
        wait_until(lambda: is_dropped(wire))


def read_no_frame(server: Process) -> None:
    with Wire(server.address, small=True) as wire:
        wire.send(SOCKET + b"\r\n" + frame(b'{"type": "start", "format": "pcm"}'))
        for _ in range(8):
            wire.say({"type": "text", "text": "This is a sentence that takes a while. " * 80})
            wire.say({"type": "flush"})
        wait_until(lambda: is_dropped(wire))


def is_dropped(wire: Wire) -> bool:
    return wire.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def test_slow_and_stalled_clients_are_dropped(server: Process) -> None:
    """They all wait at once; each that the server does not drop is named."""
    clients: dict[str, Callable[[], None]] = {name: partial(come_slowly, server, *case) for name, case in SLOW.items()}
    clients |= {f"{beginning!r} without an end": partial(begin_a_frame, server, beginning) for beginning in UNFINISHED}
    clients |= {f"{path} not read": partial(read_no_answer, server, path) for path in ("/openapi.json", "/metrics")}
    clients["frames not read"] = partial(read_no_frame, server)
    with ThreadPoolExecutor(len(clients)) as pool:
        results = {name: pool.submit(client) for name, client in clients.items()}
    assert {name: repr(error) for name, result in results.items() if (error := result.exception())} == {}
    wait_until(lambda: metric(server.url, ACTIVE) == 0)


@contextmanager
def crowd(server: Process, count: int, sent: bytes = b"") -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Wire(server.address)).try_to_send(sent)
        yield


@pytest.mark.parametrize("sent", [b"", b"G", GET, POST + b"Content-Length: 1000\r\n\r\n{"])
def test_a_crowd_that_asks_nothing_keeps_nobody_out(server: Process, sent: bytes) -> None:
    with crowd(server, 3 * CONNECTIONS, sent):
        assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
        assert speak(server.url).status_code == 200
        with connect(server.socket_url):
            pass
    assert "connections are taken" in server.log.read_text()


def test_a_full_house_answers_probes(server: Process) -> None:
    with crowd(server, CONNECTIONS, GATED):
        wait_until(lambda: metric(server.url, ACTIVE) == CONNECTIONS)
        for path in ("/livez", "/metrics", "/livez"):
            assert httpx.get(server.url + path, timeout=PATIENCE).status_code == 200
        reply = speak(server.url)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "overloaded")
        assert "retry-after" in reply.headers
        refused(server.socket_url, "503")
        # Silent ones take no probe's place.
        with crowd(server, 3 * CONNECTIONS):
            assert httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 200
    wait_until(lambda: metric(server.url, ACTIVE) == 0)
    assert speak(server.url).status_code == 200


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what another process has")
def test_the_process_may_open_more_files_than_it_was_born_with(server: Process) -> None:
    soft, hard = resource.prlimit(server.popen.pid, resource.RLIMIT_NOFILE)
    assert soft == min(hard, 65_536) or hard == resource.RLIM_INFINITY
    assert soft > FILES
