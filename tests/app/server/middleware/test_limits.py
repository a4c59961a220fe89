"""Limits on sockets: messages a second, and the length of a session; and on bodies."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from app.engine.admission import Client, client
from app.errors import InvalidRequestError
from app.server.json_values import MAX_VALUES, check_values
from app.server.middleware.limits import MAX_KEY_BODIES, BodyLimit
from tests.app.server.streams import close_code, send, session


def test_too_many_messages_close_the_socket(start_server: Any, wait_until: Any) -> None:
    running = start_server(messages_per_second=5)
    with session(running) as socket:
        for _ in range(49):
            send(socket, "text", text="a")
        time.sleep(0.3)
        assert socket.close_code is None
        with suppress(ConnectionClosed):
            for _ in range(300):
                send(socket, "text", text="a")
        assert close_code(socket) == 1008
        assert "5 messages a second" in (socket.close_reason or "")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())


def test_a_session_lasts_so_long_at_most(start_server: Any, wait_until: Any) -> None:
    # Longer than a busy machine takes to begin.
    running = start_server(session_seconds=2.5)
    begin = time.monotonic()
    with session(running, voice="gated") as socket:
        # In the middle of speech, too.
        send(socket, "text", text="One sentence. " * 200)
        send(socket, "flush")
        assert close_code(socket) == 1008
        assert time.monotonic() - begin > 2.4
        assert "2.5 seconds" in (socket.close_reason or "")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    assert 'nightingale_errors_total{code="session_timeout"}' in running.metrics()


MANY = MAX_VALUES + 10
NAMES = json.dumps(dict.fromkeys(map(str, range(MANY)), 1))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
@pytest.mark.parametrize(
    "message", ["[" + "1," * MANY, "{" + "[" * MANY, NAMES, json.dumps(['\\"'] * MANY)], ids=range(4)
)
def test_json_has_a_bound_on_its_values(message: str, encoding: str) -> None:
    with pytest.raises(InvalidRequestError, match="values; at most"):
        check_values(message.encode(encoding))


def test_marks_in_texts_are_no_values() -> None:
    texts = {"text": ['{a}, [b], \\", \\\\'] * 9_000}, {"text": "{a}, [b], " * 90_000}
    for message in (*map(json.dumps, texts), "a, b\n" * 90_000, "--boundary, [,,,"):
        check_values(message.encode())


async def ask(limit: BodyLimit, key: str, parts: list[bytes], go: asyncio.Event | None = None) -> int:
    """Send a body in parts, the last of them after `go`. Returns the status."""
    client.set(Client(key))
    left, status = list(parts), list[int]()

    async def receive() -> dict[str, Any]:
        if len(left) == 1 and go is not None:
            await go.wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        status.append(message.get("status", 0))

    await limit({"type": "http", "method": "POST", "path": "/v1/audio/speech", "headers": []}, receive, send)
    return status[0]


@pytest.mark.anyio
async def test_a_key_cannot_take_the_memory_for_bodies() -> None:
    async def handle(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    limit, go = BodyLimit(handle, 20_000, {}), asyncio.Event()
    slow = [asyncio.create_task(ask(limit, "eve", [b"a" * 19_900, b"b"], go)) for _ in range(2 * MAX_KEY_BODIES)]
    await asyncio.sleep(0)
    assert await ask(limit, "eve", [b"a" * 300]) == 200
    assert await ask(limit, "bob", [b"a" * 19_900]) == 200
    go.set()
    statuses = await asyncio.gather(*slow)
    assert set(statuses) == {200, 503}
    assert statuses.count(200) == MAX_KEY_BODIES
    assert not limit._held


async def probes_between(running: Any, port: int, message: bytes, clients: int) -> int:
    """Return how many probes are answered one after the other until so many clients have their answer from `port`."""
    host, own = running.url.removeprefix("http://").split(":")
    answers = 0

    async def exchange(port: int, message: bytes) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(message)
        answer = await reader.read(1 << 20)
        if answer.startswith(b"HTTP/1.1 101") and answer.endswith(b"\r\n\r\n"):  # the message's answer is still to come
            answer = await reader.read(1 << 20)
        assert answer
        lines = message.count(b"describe")
        while answer.count(b'"type": "info"') < lines:
            answer += await reader.read(1 << 20)
        writer.close()

    working = asyncio.gather(*(exchange(port, message) for _ in range(clients)))
    while not working.done():
        await exchange(int(own), PROBE)
        answers += 1
    await working
    return answers


PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
VALUES = b"{" + b",".join(b'"%d": [[]]' % each for each in range(5_000)) + b"}"
POST = (
    b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(VALUES)
) + VALUES
UPGRADE = (
    b"GET /v1/audio/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FRAME = b"\x81\xff" + struct.pack(">Q", len(VALUES)) + bytes(4) + VALUES


@pytest.mark.parametrize(
    ("surface", "message", "clients"),
    [
        ("http", POST, 60),
        ("socket", UPGRADE + FRAME, 60),
        ("wyoming", b'{"type": "ping", "data_length": %d}\n' % len(VALUES) + VALUES, 60),
        ("wyoming", b'{"type": "describe"}\n' * 200, 60),
    ],
)
def test_large_messages_leave_the_others_their_time(
    start_server: Any, surface: str, message: bytes, clients: int
) -> None:
    running = start_server(wyoming_port=0)
    port = running.wyoming_port if surface == "wyoming" else int(running.url.rpartition(":")[2])
    probes = asyncio.run(probes_between(running, port, message, clients))
    print(surface, probes)
    assert probes >= clients // 4
