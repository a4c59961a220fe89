"""Connections of one listening server: their number, their patience, and which one is closed when all are taken.

A connection waits while its client owes a head, or the rest of a body. When all places are taken, the connection that
waited longest is closed, those without a head first, and the new one gets its place. When all are busy, a small
reserve answers probes alone.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import resource
import socket
import struct
import sys
import termios
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from app.config import Settings
from app.errors import OverloadedError, ServiceError
from app.server.error_responses import error_response

log = logging.getLogger(__name__)

# Places beyond the bound, whose clients may ask PROBES alone.
RESERVE = 16
PROBES = frozenset({"/livez", "/readyz", "/metrics"})
# Descriptors for files, pipes and the clients of other protocols.
OTHER_FILES = 256
# More descriptors would only cost the system memory.
MAX_FILES = 65_536
# Seconds between two checks of every connection: at least, at most.
SWEEP_SECONDS = (0.05, 0.25)
# Seconds after which a client that shut down its side is probed.
FIRST_SIGN = 1.0
# Seconds between two lines of the log about closed connections.
LOG_EVERY = 10.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one listening server.

    `head_seconds`: until a head is whole. `body_seconds`: lag of a body behind its least rate. `stall_seconds`: time in
    which a client reads nothing. `frames_per_second`: WebSocket frames of every kind.
    """

    connections: int
    head_seconds: float
    body_seconds: float
    stall_seconds: float
    frames_per_second: int

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """Return the bounds of the settings, with no more connections than the system has descriptors."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = max(files - OTHER_FILES, files // 2) if files != resource.RLIM_INFINITY else MAX_FILES
        return cls(
            min(settings.max_connections, most),
            settings.head_seconds,
            settings.body_seconds,
            settings.stall_seconds,
            settings.messages_per_second,
        )


def raise_open_files() -> None:
    """Raise this process's limit of open files as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    # macOS reports no limit, and refuses values above the one of its kernel.
    for limit in (wanted, 10_240):
        if soft == resource.RLIM_INFINITY or soft >= limit:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return


class Watched(Protocol):
    """Connection that is checked while it is open."""

    def check(self, now: float, elapsed: float) -> None:
        """Close if late. `now`: seconds of the event loop's clock; `elapsed`: seconds since the last check."""

    @property
    def is_sending(self) -> bool:
        """Whether the last answer is still on its way."""

    def drop(self) -> None:
        """Close at once, without an answer. The system still sends the bytes that it holds."""


class Connections:
    """All connections of one server. All methods run on the event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        # With whether each has a place; those of the reserve have none.
        self._open: dict[Watched, bool] = {}
        # Connections that wait for a head, and those that wait for the rest of a body, the oldest first.
        self._headless: dict[Watched, None] = {}
        self._receiving: dict[Watched, None] = {}
        # Connections of the reserve that wait for a head.
        self._spare: dict[Watched, None] = {}
        low, high = SWEEP_SECONDS
        patience = min(limits.head_seconds, limits.body_seconds, limits.stall_seconds)
        self._interval = min(high, max(low, patience / 4))
        self._sweep: asyncio.TimerHandle | None = None
        self._swept = 0.0
        self._logged = float("-inf")

    def open(self, connection: Watched, loop: asyncio.AbstractEventLoop) -> bool:
        """Add a connection whose client owes a head. Return False if it has no place, and may ask PROBES alone."""
        full = len(self._open) >= self.limits.connections
        placed = not full or self._drop_oldest(self._headless, self._receiving)
        if placed:
            self._headless[connection] = None
        else:
            if len(self._open) >= self.limits.connections + RESERVE and not self._drop_oldest(self._spare):
                connection.drop()
            self._spare[connection] = None
        if full and loop.time() - self._logged >= LOG_EVERY:
            self._logged = loop.time()
            instead = "the place of one that sends no request" if placed else "answers to probes alone"
            log.warning("all %d connections are taken; a new one gets %s", self.limits.connections, instead)
        self.add(connection, loop)
        self._open[connection] = placed
        return placed

    def _drop_oldest(self, *kinds: dict[Watched, None]) -> bool:
        """Close the oldest connection of the first of `kinds` that has any. Return whether there was one."""
        for kind in kinds:
            for oldest in kind:
                if not oldest.is_sending:
                    self.close(oldest)
                    oldest.drop()
                    return True
        return False

    def add(self, connection: Watched, loop: asyncio.AbstractEventLoop) -> None:
        """Check `connection` from now on. Its client owes nothing."""
        self._open[connection] = True
        if self._sweep is None:
            self._swept = loop.time()
            self._sweep = loop.call_later(self._interval, self._sweep_all, loop)

    def head_came(self, connection: Watched) -> None:
        """Note that the client owes the body."""
        self._wait(connection, self._receiving)

    def request_came(self, connection: Watched) -> None:
        """Note that the client owes nothing."""
        self._forget(connection)

    def answered(self, connection: Watched) -> None:
        """Note that the client owes the next head."""
        if connection in self._open:
            self._wait(connection, self._headless)

    def _wait(self, connection: Watched, kind: dict[Watched, None]) -> None:
        """Note that the client owes what `kind` waits for. One of the reserve has no place that another could get."""
        self._forget(connection)
        (kind if self._open.get(connection, True) else self._spare)[connection] = None

    def close(self, connection: Watched) -> None:
        """Remove a connection that is closed, or belongs to another protocol from now on."""
        self._open.pop(connection, None)
        self._forget(connection)

    def _forget(self, connection: Watched) -> None:
        for kind in (self._headless, self._receiving, self._spare):
            kind.pop(connection, None)

    def _sweep_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        elapsed, self._swept = now - self._swept, now
        self._sweep = loop.call_later(self._interval, self._sweep_all, loop) if self._open else None
        for connection in tuple(self._open):
            connection.check(now, elapsed)


class Unread:
    """Watch on a client that reads nothing of the bytes written to it."""

    def __init__(self, transport: asyncio.Transport, seconds: float, now: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._size = 0
        self._since = now

    def check(self, now: float) -> bool:
        """Return whether nothing was read for too long, also after the last answer of a connection."""
        size = self._transport.get_write_buffer_size()
        if size:
            size += _in_system(self._transport)
        if not size or size < self._size:
            self._since = now
        self._size = size
        if now - self._since < self._seconds:
            return False
        log.info("a client read nothing for %g seconds and was dropped", self._seconds)
        return True


def forget(transport: asyncio.Transport) -> None:
    """Have the system drop the bytes that nobody reads once `transport` is closed: it resets the connection."""
    peer: socket.socket = transport.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_closed(transport: asyncio.Transport) -> bool:
    """Return whether the descriptor of `transport` may already belong to another connection."""
    return transport.is_closing() and not transport.get_write_buffer_size()


def _in_system(transport: asyncio.Transport) -> int:
    """Return the bytes that the system holds and the client did not acknowledge; 0 where the system does not say."""
    if not sys.platform.startswith("linux"):
        return 0
    peer: socket.socket = transport.get_extra_info("socket")
    return int(struct.unpack("i", fcntl.ioctl(peer.fileno(), termios.TIOCOUTQ, bytes(4)))[0])


class ShutPeer:
    """Client that shut down its side: it waits for an answer, or it is gone.

    A client that is gone resets the connection when it is sent something. So it is sent bytes without a meaning, first
    after FIRST_SIGN seconds, then after four times as many.
    """

    def __init__(self, transport: asyncio.BaseTransport, now: float) -> None:
        self._transport = transport
        self.since = now
        self._next = FIRST_SIGN

    def is_gone(self) -> bool:
        """Return whether the client reset the connection, or it is closed."""
        peer: socket.socket = self._transport.get_extra_info("socket")
        return self._transport.is_closing() or peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def is_due(self, now: float) -> bool:
        """Return whether the client must be sent something, if there is no answer to send."""
        if now - self.since < self._next:
            return False
        self._next *= 4
        return True


def for_probes(app: ASGIApp) -> ASGIApp:
    """Return `app` for a connection of the reserve: it answers PROBES, and refuses other paths with 503."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        error = OverloadedError("Too many connections are open; try again shortly.")
        await error_response(error, {"connection": "close"}, path=scope["path"])(scope, receive, send)

    return answer


def answer_bytes(error: ServiceError, path: str | None, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the whole answer to a request that reaches no application; the connection is closed after it."""
    answer = error_response(error, {"connection": "close"}, path=path)
    status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()
    lines = [status, *(b": ".join(header) for header in [*headers, *answer.raw_headers]), b"", bytes(answer.body)]
    return b"\r\n".join(lines)
