"""A bare client of Wyoming."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Event:
    type: str
    data: dict[str, Any]
    payload: bytes


class Client:
    """A bare client, which sends bytes that the real client does not."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def send(self, kind: str, payload: bytes = b"", **data: object) -> None:
        body = json.dumps(data).encode() if data else b""
        header: dict[str, Any] = {"type": kind, "version": "1.0", **({"data_length": len(body)} if body else {})}
        if payload:
            header["payload_length"] = len(payload)
        self.socket.sendall(json.dumps(header).encode() + b"\n" + body + payload)

    def read(self) -> Event | None:
        line = self.file.readline()
        if not line:
            return None
        header = json.loads(line)
        data = json.loads(self.file.read(header.get("data_length", 0)) or b"{}")
        return Event(header["type"], data, self.file.read(header.get("payload_length", 0)))

    def until(self, kind: str) -> list[Event]:
        events = []
        while (event := self.read()) is not None:
            events.append(event)
            if event.type == kind:
                return events
        raise AssertionError(f"no {kind} after {[each.type for each in events]}, {events[-1:]}")

    def rest(self) -> list[str]:
        kinds = []
        try:
            while (event := self.read()) is not None:
                kinds.append(event.type)
        except ConnectionResetError:
            pass  # it had sent bytes that nobody read
        return kinds

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextmanager
def connected(port: int) -> Iterator[Client]:
    client = Client(port)
    try:
        yield client
    finally:
        client.close()


def error_of(client: Client) -> dict[str, Any]:
    """Data of the error that ends the connection."""
    event = client.read()
    assert event is not None
    assert event.type == "error"
    assert client.rest() == []
    return event.data
