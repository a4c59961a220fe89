"""The connections of one listening server: how many there are, how long each may wait, and which one must go.

A connection waits while its client owes a head, or the rest of a body. When all places are taken, the one that has
waited longest is closed, those without a head first, and the newcomer gets its place. When all are busy, a small
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

# Places beyond the bound, whose clients get an answer from these paths alone.
RESERVE = 16
PROBES = frozenset({"/livez", "/readyz", "/metrics"})
# Descriptors that are left to files, pipes and the clients of other protocols.
OTHER_FILES = 256
# More would only cost the system memory.
MOST_FILES = 65_536
# Seconds between two looks at every connection, at most and at least.
SWEEP_SECONDS = (0.05, 0.25)
# Seconds after which a client that shut down its side is sent something.
FIRST_SIGN = 1.0
# Seconds in which the log has one line about closed connections.
LOG_EVERY = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one listening server. Seconds: until a head is whole; that a body may lag behind its least rate; that
    a client may read nothing. `frames_per_second`: WebSocket frames of every kind."""

    connections: int
    head_seconds: float
    body_seconds: float
    stall_seconds: float
    frames_per_second: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The bounds that a deployment chose, and no more connections than the system has descriptors for."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = max(files - OTHER_FILES, files // 2) if files != resource.RLIM_INFINITY else MOST_FILES
        return cls(
            min(settings.max_connections, most),
            settings.head_seconds,
            settings.body_seconds,
            settings.stall_seconds,
            settings.messages_per_second,
        )


def raise_open_files() -> None:
    """Let this process open as many files as the system lets it. A system that refuses keeps its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    # macOS says that there is no limit, and refuses what is above one of its kernel's.
    for limit in (wanted, 10_240):
        if soft == resource.RLIM_INFINITY or soft >= limit:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return


class Watched(Protocol):
    """A connection that is looked at while it is open."""

    def check(self, now: float, elapsed: float) -> None:
        """Close what is late. `now`: seconds of the event loop's clock; `elapsed`: since the last look."""

    @property
    def is_sending(self) -> bool:
        """Whether the last answer is still on its way."""

    def drop(self) -> None:
        """Close at once, without an answer. What the system holds is still sent."""


class Connections:
    """All connections of one server. All methods on the event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[Watched, None] = {}
        # Those that wait for a head, and those that wait for the rest of a body, the oldest first.
        self._headless: dict[Watched, None] = {}
        self._receiving: dict[Watched, None] = {}
        # Of the first, those in the reserve.
        self._spare: dict[Watched, None] = {}
        low, high = SWEEP_SECONDS
        patience = min(limits.head_seconds, limits.body_seconds, limits.stall_seconds)
        self._interval = min(high, max(low, patience / 4))
        self._sweep: asyncio.TimerHandle | None = None
        self._swept = 0.0
        self._logged = float("-inf")

    def open(self, connection: Watched, loop: asyncio.AbstractEventLoop) -> bool:
        """A client connected, and owes a head. False: it has no place, and may only ask what probes ask."""
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
        return placed

    def _drop_oldest(self, *kinds: dict[Watched, None]) -> bool:
        """Close the connection that is the first in the first of `kinds` that has any; whether there was one."""
        for kind in kinds:
            for oldest in kind:
                if not oldest.is_sending:
                    self.close(oldest)
                    oldest.drop()
                    return True
        return False

    def add(self, connection: Watched, loop: asyncio.AbstractEventLoop) -> None:
        """Look at `connection` from now on. It is not waited for."""
        self._open[connection] = None
        if self._sweep is None:
            self._swept = loop.time()
            self._sweep = loop.call_later(self._interval, self._look, loop)

    def head_came(self, connection: Watched) -> None:
        """Its client owes the body."""
        self._forget(connection)
        self._receiving[connection] = None

    def request_came(self, connection: Watched) -> None:
        """Its client owes nothing."""
        self._forget(connection)

    def answered(self, connection: Watched) -> None:
        """Its client owes the next head."""
        if connection in self._open:
            self._forget(connection)
            self._headless[connection] = None

    def close(self, connection: Watched) -> None:
        """It is closed, or is another protocol's from now on."""
        self._open.pop(connection, None)
        self._forget(connection)

    def _forget(self, connection: Watched) -> None:
        for kind in (self._headless, self._receiving, self._spare):
            kind.pop(connection, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        elapsed, self._swept = now - self._swept, now
        self._sweep = loop.call_later(self._interval, self._look, loop) if self._open else None
        for connection in tuple(self._open):
            connection.check(now, elapsed)


class Unread:
    """Notices that a client reads nothing of what was written to it."""

    def __init__(self, transport: asyncio.Transport, seconds: float, now: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._size = 0
        self._since = now

    def check(self, now: float) -> bool:
        """Whether nothing was read for too long, be it of the last words of a connection."""
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
    """Have the system forget what nobody reads, once `transport` is closed: it resets the connection."""
    peer: socket.socket = transport.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_closed(transport: asyncio.Transport) -> bool:
    """Whether its descriptor may be another's already."""
    return transport.is_closing() and not transport.get_write_buffer_size()


def _in_system(transport: asyncio.Transport) -> int:
    """Bytes that the system holds and the client did not acknowledge; 0 where the system does not say."""
    if not sys.platform.startswith("linux"):
        return 0
    peer: socket.socket = transport.get_extra_info("socket")
    return int(struct.unpack("i", fcntl.ioctl(peer.fileno(), termios.TIOCOUTQ, bytes(4)))[0])


class ShutPeer:
    """A client that shut down its side: it waits for an answer, or it is gone. One that is gone resets what it is sent.

    So it is sent something that means nothing, at first after FIRST_SIGN seconds, then after four times as many.
    """

    def __init__(self, transport: asyncio.BaseTransport, now: float) -> None:
        self._transport = transport
        self.since = now
        self._next = FIRST_SIGN

    def is_gone(self) -> bool:
        """Whether it reset the connection."""
        peer: socket.socket = self._transport.get_extra_info("socket")
        return peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def is_due(self, now: float) -> bool:
        """Whether it should be sent something, if there is no answer to send."""
        if now - self.since < self._next:
            return False
        self._next *= 4
        return True


def for_probes(app: ASGIApp) -> ASGIApp:
    """`app` for a connection of the reserve: whoever asks for more than PROBES is told to come again."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        error = OverloadedError("Too many connections are open; try again shortly.")
        await error_response(error, {"connection": "close"}, path=scope["path"])(scope, receive, send)

    return answer


def answer_bytes(error: ServiceError, path: str | None, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The whole answer to a request that reaches no application, and after which the connection is closed."""
    answer = error_response(error, {"connection": "close"}, path=path)
    status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()
    lines = [status, *(b": ".join(header) for header in [*headers, *answer.raw_headers]), b"", bytes(answer.body)]
    return b"\r\n".join(lines)
