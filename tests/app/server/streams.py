"""A client of `WS /v1/audio/stream`, and what clients of all sockets do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect


@contextmanager
def session(server: Any, headers: dict[str, str] | None = None, **start: object) -> Iterator[ClientConnection]:
    """Start a session, and receive `ready`."""
    with connect(server.websocket_url, additional_headers=headers) as socket:
        send(socket, "start", **start)
        ready = receive(socket)
        assert ready["type"] == "ready", ready
        yield socket


def send(socket: ClientConnection, kind: str, **fields: object) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def receive(socket: ClientConnection) -> dict[str, Any]:
    message = socket.recv(timeout=60)
    assert isinstance(message, str)
    found = json.loads(message)
    assert isinstance(found, dict)
    return found


def until_answer(socket: ClientConnection) -> tuple[list[dict[str, Any]], bytes, dict[str, Any]]:
    """Return (chunks, audio, done or error)."""
    chunks: list[dict[str, Any]] = []
    audio = b""
    while True:
        message = socket.recv(timeout=60)
        if isinstance(message, bytes):
            audio += message
            continue
        event = json.loads(message)
        if event["type"] != "chunk":
            return chunks, audio, event
        chunks.append(event)


def say(socket: ClientConnection, text: str, last: str = "flush") -> tuple[list[dict[str, Any]], bytes, dict[str, Any]]:
    """Send a text, and a flush or the end; return their answer as `until_answer` does."""
    send(socket, "text", text=text)
    send(socket, last)
    return until_answer(socket)


def close_code(socket: ClientConnection) -> int:
    """Return the code with which the server closes; what comes before is passed over."""
    with pytest.raises(ConnectionClosed):
        while True:
            socket.recv(timeout=60)
    assert socket.close_code is not None
    return socket.close_code


def rest(socket: ClientConnection) -> list[dict[str, Any]]:
    """Return the messages up to the end of the socket."""
    told = []
    with pytest.raises(ConnectionClosed):
        while True:
            told.append(json.loads(socket.recv(timeout=60)))
    return told


def int16(pcm: np.ndarray) -> bytes:
    return (np.clip(pcm, -1, 1) * 32_767).astype("<i2").tobytes()


def reference(server: Any, text: str, **options: object) -> bytes:
    """Return the samples of a text over the server's own surface."""
    body = {"input": text, "response_format": "pcm", **options}
    return httpx.post(server.url + "/v1/audio/speech", json=body).raise_for_status().content
