"""`WS /v1/audio/interpret` under clients that leave, do not read, or flood, and under a server that stops."""

from __future__ import annotations

import json
import random
import socket as sockets
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

# A server of its own for each.
pytestmark = pytest.mark.slow
PATIENCE = 60
RATE = 16_000
SECOND = (np.sin(np.arange(RATE) / 10) * 8_000).astype("<i2").tobytes()
START = {
    "type": "start", "target": "fr", "source": "en", "recognition_model": "ear", "translate_model": "shout",
    "pause": None, "partials": False, "anticipate": False,
}  # fmt: skip


@pytest.fixture
def running(start_server: Any) -> Any:
    return start_server(recognizer="ear", translator="shout", recognition_gate=False, preload=("parrot",))


def address(running: Any) -> str:
    return running.url.replace("http", "ws", 1) + "/v1/audio/interpret"


def until(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        frame = socket.recv(timeout=PATIENCE)
        if isinstance(frame, str) and (event := json.loads(frame))["type"] == kind:
            return dict(event)


def begin(socket: ClientConnection, **fields: object) -> None:
    socket.send(json.dumps({**START, **fields}))
    until(socket, "ready")


def say(socket: ClientConnection) -> None:
    socket.send(SECOND)
    socket.send('{"type": "flush"}')


def idle(running: Any) -> bool:
    text = running.metrics()
    waiting = [line for line in text.splitlines() if line.startswith("nightingale_queue_depth{")]
    return "nightingale_active_streams 0.0" in text and all(line.endswith(" 0.0") for line in waiting)


def works(running: Any) -> None:
    """Check that the server still interprets."""
    running.parrot.hold.set()
    running.ear.says[:] = ["still here."]
    with connect(address(running)) as socket:
        begin(socket)
        say(socket)
        assert until(socket, "translation")["text"] == "STILL HERE."
        assert until(socket, "sentence_done")["ending"] == "spoken"


@pytest.fixture
def reset() -> Callable[[ClientConnection], None]:
    """Break a connection without a word."""

    def now(client: ClientConnection) -> None:
        client.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.shutdown(sockets.SHUT_RDWR)

    return now


@pytest.mark.parametrize("moment", ["", "ready", "sentence", "translation", "chunk", "sentence_done"])
def test_a_client_may_leave_at_any_moment(running: Any, reset: Any, wait_until: Any, moment: str) -> None:
    running.ear.says[:] = ["one is here. two is there. three is where."] * 3
    client = connect(address(running), close_timeout=0)
    socket = client.__enter__()
    socket.send(json.dumps({**START, "model": "parrot", "any_language": True}))
    if moment:
        until(socket, "ready")
        for _ in range(3):
            say(socket)
        if moment != "ready":
            until(socket, moment)
    reset(socket)
    assert wait_until(lambda: idle(running))
    works(running)


def test_the_end_of_the_server_interprets_what_was_said(running: Any, wait_until: Any) -> None:
    running.ear.says[:] = ["one is here."]
    with connect(address(running)) as socket:
        begin(socket)
        socket.send(SECOND)
        running.take(socket)
        running.call(running.server.config.app.state.services.admission.drain)
        assert until(socket, "translation")["text"] == "ONE IS HERE."
        assert until(socket, "error")["error"]["code"] == "draining"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=PATIENCE)
        assert socket.close_code == 1012


def test_draining_that_takes_too_long_breaks_off(running: Any) -> None:
    running.ear.says[:] = ["one is here."]
    with connect(address(running)) as socket:
        begin(socket, model="parrot", any_language=True)
        running.parrot.hold.clear()
        say(socket)
        until(socket, "translation")
        admission = running.server.config.app.state.services.admission
        running.call(admission.drain)
        running.call(admission.abort)
        assert until(socket, "error")["error"]["code"] == "draining"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=PATIENCE)
        assert socket.close_code == 1012


def test_a_flood_of_tiny_messages_is_taken_and_nothing_is_lost(running: Any) -> None:
    running.ear.says[:] = ["one is here."]
    with connect(address(running)) as socket:
        begin(socket)
        for start in range(0, 4_000, 10):
            socket.send(SECOND[start : start + 10])
        socket.send(b"")
        socket.send('{"type": "end"}')
        assert until(socket, "done")["input_duration"] == pytest.approx(2_000 / RATE, abs=1e-4)


def test_a_message_that_is_too_large_is_refused(running: Any) -> None:
    with connect(address(running), max_size=None) as socket:
        begin(socket)
        with pytest.raises(ConnectionClosed):
            socket.send(bytes((1 << 20) + 2))
            until(socket, "never")
        assert socket.close_code == 1009
    works(running)


@pytest.mark.parametrize("seed", range(3))
def test_noise_in_place_of_messages_does_no_harm(running: Any, seed: int) -> None:
    chooser = random.Random(seed)
    for _ in range(10):
        with connect(address(running)) as socket:
            if chooser.random() < 0.7:
                begin(socket)
            noise = [
                chooser.randbytes(chooser.randrange(2_000)),
                chooser.randbytes(50).decode("latin-1"),
                json.dumps({"type": chooser.choice(["start", "update", "mute", "flush", "cancel", "end", "x", 3])}),
                json.dumps({**START, chooser.choice(list(START)): chooser.choice([None, 7, [], {}, "", "x" * 999])}),
                "[" * 5_000,
                "null",
            ]
            try:
                for _ in range(chooser.randrange(6)):
                    socket.send(chooser.choice(noise))
            except ConnectionClosed:
                continue
    works(running)


def test_a_client_that_does_not_read_is_dropped_and_holds_nobody_up(start_server: Any, wait_until: Any) -> None:
    running = start_server(recognizer="ear", translator="shout", recognition_gate=False, stall_seconds=1.0)
    running.ear.says[:] = ["word " * 90 + "end."] * 50
    with connect(address(running), max_queue=1) as socket:
        socket.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
        begin(socket, max_delay=600.0)
        try:
            for _ in range(50):
                say(socket)
        except (ConnectionClosed, TimeoutError):
            pass
        assert wait_until(lambda: idle(running))
    works(running)
