"""Measure the server's own time: a client's wait for one sentence, less the model's computing.

    python -m loadtest.own_time --requests 60 [--url http://127.0.0.1:8000] [--text "Hello world."] [--model NAME]
        [--options '{"translate_to": "es"}']

One request after the other on one connection, each to its last byte, over HTTP (`Server-Timing`) and over a WebSocket
(`done`). `client` is what the client saw from sending the text, `server` what the server says it took, `model` the sum
of the stages inside the model, `on top` client less model, request by request. Below them the server's own stages and
`elsewhere`, what no stage has: reading and writing, the event loop, threads. Needs `profile = true`, the default. The
client is this program's own, as it is part of what is measured.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import Event
from websockets.uri import parse_uri

from loadtest.clients import server_timing
from loadtest.playback import SERVER_STAGES

WARM = 5
# Seconds between two requests: work of the server after its last byte delays nobody.
PAUSE = 0.02


@dataclass(slots=True)
class Waits:
    """Seconds of each request over one surface."""

    client: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    model: list[float] = field(default_factory=list)
    own: dict[str, list[float]] = field(default_factory=dict)

    def add(self, client: float, server: float, stages: dict[str, float]) -> None:
        """Add one request: the client's wait, the server's total, and the server's stages."""
        own = {name: seconds for name, seconds in stages.items() if name in SERVER_STAGES and name != "total"}
        model = sum(seconds for name, seconds in stages.items() if name not in SERVER_STAGES)
        self.client.append(client)
        self.server.append(server)
        self.model.append(model)
        own["elsewhere"] = client - model - sum(own.values())
        for name, seconds in own.items():
            self.own.setdefault(name, []).append(seconds)

    @property
    def on_top(self) -> list[float]:
        """Return the client's wait less the model's computing, for each request."""
        return [client - model for client, model in zip(self.client, self.model, strict=True)]


class Line:
    """Connection without a client library, which would add up to a millisecond."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.netloc
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # One buffer for all reads: to allocate a mebibyte for each takes time that is not the server's.
        self._room = bytearray(1 << 20)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send all of the data."""
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Return the bytes that are there, at least one. Raises ConnectionError at the end."""
        size = self._socket.recv_into(self._room)
        if not size:
            raise ConnectionError("the server closed the connection")
        return bytes(memoryview(self._room)[:size])


def over_http(url: str, body: dict[str, object], requests: int) -> Waits:
    """Send `requests` on one connection, each to its last byte. Raises RuntimeError for an answer that is not 200."""
    waits = Waits()
    payload = json.dumps(body).encode()
    with Line(url) as line:
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {line.host}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload
        for number in range(WARM + requests):
            time.sleep(PAUSE)
            start = time.perf_counter()
            line.send(request)
            reply = line.receive()
            while b"\r\n\r\n" not in reply:
                reply += line.receive()
            top, _, sound = reply.partition(b"\r\n\r\n")
            headers = dict(field.lower().split(": ", 1) for field in top.decode("latin-1").split("\r\n")[1:])
            received, length = len(sound), int(headers.get("content-length", "0"))
            while received < length:
                received += len(line.receive())
            seconds = time.perf_counter() - start
            if not top.startswith(b"HTTP/1.1 200") or not length:
                raise RuntimeError(f"{top.splitlines()[0].decode('latin-1')}, {sound[:200].decode(errors='replace')}")
            stages = server_timing(headers["server-timing"])
            if number >= WARM:
                waits.add(seconds, stages["total"], stages)
    return waits


class Session:
    """WebSocket session on a line, started with `options`. Raises RuntimeError where the server refuses it."""

    def __init__(self, line: Line, url: str, options: dict[str, object]) -> None:
        self._line = line
        self._protocol = ClientProtocol(parse_uri(url.replace("http", "ws", 1) + "/v1/audio/stream"), max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        self._events = self._read()
        next(self._events)  # the handshake's answer
        if self._protocol.handshake_exc is not None:
            raise RuntimeError(str(self._protocol.handshake_exc))
        self.send({"type": "start", "format": "pcm", **options})
        next(self._events)

    def send(self, *messages: dict[str, object]) -> None:
        """Send all messages in one write."""
        for message in messages:
            self._protocol.send_text(json.dumps(message).encode())
        self._flush()

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None for one of sound. Raises RuntimeError for an error."""
        for event in self._events:
            # Others are pings, which the protocol has answered.
            if isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                return None
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                message: dict[str, Any] = json.loads(bytes(event.data))
                if message["type"] == "error":
                    raise RuntimeError(str(message["error"]))
                return message
        raise ConnectionError("the server closed the session")

    def _flush(self) -> None:
        self._line.send(b"".join(self._protocol.data_to_send()))

    def _read(self) -> Iterator[Event]:
        while True:
            self._protocol.receive_data(self._line.receive())
            self._flush()
            yield from self._protocol.events_received()


def over_websocket(url: str, body: dict[str, object], requests: int) -> Waits:
    """Send `requests` texts on one session, each to its first sound. Raises RuntimeError for an error."""
    waits = Waits()
    with Line(url) as line:
        session = Session(line, url, {name: value for name, value in body.items() if name != "input"})
        for number in range(WARM + requests):
            time.sleep(PAUSE)
            start, seconds = time.perf_counter(), 0.0
            session.send({"type": "text", "text": body["input"]}, {"type": "flush"})
            while (message := session.receive()) is None or message["type"] != "done":
                if message is None:
                    seconds = seconds or time.perf_counter() - start
            if number >= WARM:
                waits.add(seconds, message["first_audio"], message["stages"])
    return waits


def table(found: dict[str, Waits]) -> str:
    """Return the table of medians in milliseconds. The spread of `on top` shows whether the machine was busy."""
    lines = [
        f"{'':12s}{'client p50':>12s}{'server p50':>12s}{'model p50':>12s}{'on top p50':>12s}{'p10':>8s}{'p95':>8s}"
    ]
    for name, waits in found.items():
        figures = [statistics.median(part) for part in (waits.client, waits.server, waits.model, waits.on_top)]
        tenths = statistics.quantiles(waits.on_top, n=20)
        spread = "".join(f"{figure * 1e3:8.2f}" for figure in (tenths[1], tenths[-1]))
        lines.append(f"{name:12s}" + "".join(f"{figure * 1e3:12.2f}" for figure in figures) + spread)
        own = {stage: statistics.median(seconds) for stage, seconds in waits.own.items()}
        lines.append("    " + ", ".join(f"{stage} {seconds * 1e3:.2f}" for stage, seconds in own.items()))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 1 when the server refuses or cannot be reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=60, help="of each surface (default 60, at least 2)")
    parser.add_argument("--text", default="Hello world.", help="one sentence")
    parser.add_argument("--model")
    parser.add_argument("--voice")
    parser.add_argument("--options", type=json.loads, default={}, help='JSON, such as {"translate_to": "es"}')
    given = parser.parse_args(arguments)
    if given.requests < 2:
        parser.error("--requests is at least 2")
    body: dict[str, object] = {"input": given.text, "seed": 0}
    body |= {name: value for name, value in (("model", given.model), ("voice", given.voice)) if value is not None}
    body |= given.options
    ways: dict[str, Callable[[str, dict[str, object], int], Waits]] = {"http": over_http, "websocket": over_websocket}
    try:
        found = {name: way(given.url.rstrip("/"), body, given.requests) for name, way in ways.items()}
    except (OSError, RuntimeError) as error:
        print(f"own_time: {error}", file=sys.stderr)
        return 1
    print(f"{given.requests} requests each, one at a time; milliseconds")
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
