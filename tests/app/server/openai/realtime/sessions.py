"""A client of `WS /v1/realtime`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from websockets.sync.client import ClientConnection, connect

PATIENCE = 20.0
EVENT: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


class Session:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def append(self, data: bytes) -> None:
        self.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.socket.recv(PATIENCE))
        assert found["event_id"].startswith("event_")
        return found

    def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while count:
            found.append(self.next())
            assert found[-1]["type"] != "error" or kind == "error", found[-1]
            count -= found[-1]["type"] == kind
        return found


@contextmanager
def opened(running: Any, query: str = "", **options: Any) -> Iterator[ClientConnection]:
    url = running.url.replace("http", "ws", 1) + "/v1/realtime" + query
    with connect(url, compression=None, max_queue=None, **options) as socket:
        yield socket
