"""Limits on sockets: messages a second, and the length of a session."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.app.server.streams import close_code


def ready(socket: ClientConnection, voice: str = "steady") -> bool:
    socket.send(json.dumps({"type": "start", "voice": voice}))
    return bool(json.loads(socket.recv(timeout=60))["type"] == "ready")


def test_too_many_messages_close_the_socket(start_server: Any, wait_until: Any) -> None:
    running = start_server(messages_per_second=5)
    with connect(running.websocket_url) as socket:
        assert ready(socket)
        for _ in range(49):
            socket.send(json.dumps({"type": "text", "text": "a"}))
        time.sleep(0.3)
        assert socket.close_code is None
        with suppress(ConnectionClosed):
            for _ in range(300):
                socket.send(json.dumps({"type": "text", "text": "a"}))
        assert close_code(socket) == 1008
        assert "5 messages a second" in (socket.close_reason or "")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())


def test_a_session_lasts_so_long_at_most(start_server: Any, wait_until: Any) -> None:
    # Longer than a busy machine takes to begin.
    running = start_server(session_seconds=2.5)
    begin = time.monotonic()
    with connect(running.websocket_url) as socket:
        assert ready(socket, voice="gated")
        # In the middle of speech, too.
        socket.send(json.dumps({"type": "text", "text": "One sentence. " * 200}))
        socket.send(json.dumps({"type": "flush"}))
        assert close_code(socket) == 1008
        assert time.monotonic() - begin > 2.4
        assert "2.5 seconds" in (socket.close_reason or "")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    assert 'nightingale_errors_total{code="session_timeout"}' in running.metrics()
