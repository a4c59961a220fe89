"""A client of HTTP and of WebSockets that may send every byte wrong."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from contextlib import suppress
from typing import Any

TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0


class Wire:
    """A TCP connection, spoken byte by byte."""

    def __init__(self, address: tuple[str, int], *, small: bool = False) -> None:
        """Connect. With `small` the system takes little that nobody has read."""
        self.socket = socket.socket()
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.settimeout(60)
        self.socket.connect(address)
        self.host = f"{address[0]}:{address[1]}"
        self._buffer = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def leave(self, *, reset: bool = False) -> None:
        """Close: with FIN, or with RST as when a process is killed or a cable cut."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def try_to_send(self, data: bytes) -> None:
        """Send; a server that has had enough hangs up while it is still being sent."""
        with suppress(OSError):
            self.socket.sendall(data)

    def _read(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            raise EOFError
        self._buffer += data

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._read()
        head, _, self._buffer = self._buffer.partition(mark)
        return head

    def read_all(self) -> bytes:
        """Return what comes until the server closes."""
        data = bytearray(self._buffer)
        with suppress(ConnectionError):
            while more := self.socket.recv(65_536):
                data += more
        return bytes(data)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._read()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def handshake(self) -> None:
        self.send(upgrade(self.socket.getpeername()))
        assert b" 101 " in self.read_until(b"\r\n\r\n")

    def frame(self) -> tuple[int, bytes]:
        """The next frame of the server's: opcode and payload."""
        first, size = self._take(2)
        if size == 126:
            (size,) = struct.unpack(">H", self._take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._take(8))
        return first & 0x0F, self._take(size)

    def until(self, kind: str) -> None:
        """Read to the message of that type, or to the first binary one."""
        while True:
            opcode, payload = self.frame()
            if (opcode == BINARY and kind == "audio") or (opcode == TEXT and json.loads(payload)["type"] == kind):
                return

    def say(self, message: dict[str, Any]) -> None:
        self.send(frame(json.dumps(message).encode()))

    def closed_with(self) -> int | None:
        """The close code that the server ends with; None when it just hangs up."""
        try:
            while True:
                opcode, payload = self.frame()
                if opcode == CLOSE:
                    return int(struct.unpack(">H", payload[:2])[0]) if payload else 1005
        except (EOFError, ConnectionError):
            return None


def upgrade(address: tuple[str, int], path: str = "/v1/audio/stream", more: str = "") -> bytes:
    """The request that begins a WebSocket (RFC 6455, section 4.1), with more headers."""
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    ).encode()


def frame(payload: bytes, opcode: int = TEXT, *, fin: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """A client's frame (RFC 6455, section 5.2)."""
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    bit = 0x80 if masked else 0
    if len(payload) < 126:
        head = struct.pack("BB", first, bit | len(payload))
    elif len(payload) < 65_536:
        head = struct.pack(">BBH", first, bit | 126, len(payload))
    else:
        head = struct.pack(">BBQ", first, bit | 127, len(payload))
    mask = b"\x01\x02\x03\x04" if masked else b""
    body = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload)) if masked else payload
    return head + mask + body
