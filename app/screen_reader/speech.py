"""One message spoken by the server: its audio and marks in order, over the server's own WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from app.cli.server_client import ServerError, unreachable

_PATH = "/v1/audio/stream"
# Seconds to reach the server: the daemon waits so long before it takes other commands.
_CONNECT = 1.0
# Seconds to wait for the next frame: a model may have to be loaded first.
_PATIENCE = 60.0
# Frames that may wait here: the daemon takes audio as it is played, and the server is not to compute far ahead of it.
_FRAMES = 4
# Characters of a fragment: as JSON they are below the smallest usual `max_frame_bytes`.
_FRAGMENT = 8_000
_MAX_FRAME = 4 << 20


async def open_socket(url: str, key: str | None) -> ClientConnection:
    """Return a socket of the server at `url`. Raises ServerError."""
    headers = None if key is None else {"Authorization": f"Bearer {key}"}
    address = url.replace("http", "ws", 1) + _PATH
    try:
        # Compression would not make samples smaller, and a proxy does not know the servers of this machine.
        return await connect(
            address,
            additional_headers=headers,
            compression=None,
            proxy=None,
            open_timeout=_CONNECT,
            max_size=_MAX_FRAME,
            max_queue=_FRAMES,
            ping_interval=None,
        )
    except InvalidStatus as error:
        raise ServerError(f"{url} refused with status {error.response.status_code}") from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise unreachable(url) from error


async def speak(
    socket: ClientConnection, start: dict[str, Any], text: str
) -> AsyncGenerator[tuple[bytes, int] | str, None]:
    """Yield samples (16 bits, little-endian, one channel) with their rate, and the names of marks between them.

    `socket`, of `open_socket`, is ended by this call. `start`: first message to the server. Raises ServerError.
    """
    feeding = asyncio.create_task(_feed(socket, start, text))
    stream = _Stream()
    try:
        while not stream.done:
            async with asyncio.timeout(_PATIENCE):
                message = await socket.recv()
            for item in stream.take(message):
                yield item
    except TimeoutError as error:
        raise ServerError(f"the server sent nothing for {_PATIENCE:g} seconds") from error
    except WebSocketException as error:
        raise ServerError(f"the server broke off its speech: {error}") from error
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        # At once: the server drops the rest when its client has gone.
        socket.transport.abort()


async def _feed(socket: ClientConnection, start: dict[str, Any], text: str) -> None:
    await socket.send(json.dumps(start))
    for begin in range(0, len(text), _FRAGMENT):
        await socket.send(json.dumps({"type": "text", "text": text[begin : begin + _FRAGMENT]}, ensure_ascii=False))
    await socket.send(json.dumps({"type": "end"}))


class _Stream:
    """Order of the server's frames: which samples come before each mark."""

    def __init__(self) -> None:
        self.done = False
        self._rate = 0
        self._sent = 0  # samples
        self._rest = b""
        self._marks: deque[tuple[int, str]] = deque()

    def take(self, message: str | bytes) -> list[tuple[bytes, int] | str]:
        """Return what a frame adds. Raises ServerError."""
        if isinstance(message, bytes):
            return self._audio(message)
        event = json.loads(message)
        match event.get("type"):
            case "ready":
                self._rate = event["sample_rate"]
            case "chunk":
                for mark in event.get("marks") or ():
                    self._marks.append((round(mark["time"] * self._rate), mark["name"]))
            case "error":
                raise ServerError(event["error"]["message"], event["error"]["code"])
            case "done":
                self.done = True
                return [name for _, name in self._marks]
        return []

    def _audio(self, frame: bytes) -> list[tuple[bytes, int] | str]:
        data = self._rest + frame
        whole = len(data) // 2 * 2
        self._rest, data = data[whole:], data[:whole]
        items: list[tuple[bytes, int] | str] = []
        while data:
            count = len(data) // 2
            if self._marks:
                count = min(count, max(0, self._marks[0][0] - self._sent))
            if count:
                items.append((data[: 2 * count], self._rate))
                self._sent += count
                data = data[2 * count :]
            while self._marks and self._marks[0][0] <= self._sent:
                items.append(self._marks.popleft()[1])
        return items
