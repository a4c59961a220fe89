"""Limits on sockets: messages a second, and the length of a session."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed

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
