"""uvicorn's HTTP with bounds: on a head, on the framing of a body, on the time of both, and on waiting clients.

Bytes are parsed a piece at a time, so that no flood of small requests holds the event loop up. A client that shuts its
side down after a whole request gets its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.errors import (
    AddressTooLongError,
    HeadTooLargeError,
    InvalidRequestError,
    RequestTimeoutError,
    ServiceError,
)
from app.server.connections import Connections, ShutPeer, Unread, answer_bytes, for_probes, forget, is_closed

MAX_HEAD = 65_536
MAX_HEADERS = 100
MAX_ADDRESS = 16_384
# Bytes a second below which a body is late, once `body_seconds` are used up.
MIN_BYTES_PER_SECOND = 4_096
# Bytes that are parsed at once, and the number of such pieces before other connections have their turn.
CHUNK_BYTES = 4_096
CHUNKS_PER_TURN = 16
# Seconds for which the bytes of a refused client are still read, so that it sees the answer.
LINGER = 2.0
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Expected(Enum):
    """Part of a request that comes next."""

    HEAD = auto()
    REST_OF_HEAD = auto()
    BODY = auto()


class _RefusedError(Exception):
    """Raised to stop the parser, which hands on no error of its callbacks."""


class _Flow(FlowControl):
    """Flow control of a connection. `held`: reading stays paused, whatever the application asks for."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class _Transport:
    """Transport of one exchange. Its end waits for a client that still sends a body."""

    def __init__(self, protocol: HttpProtocol, transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self._transport = transport
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        # uvicorn learns a little later that it is closed.
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self._protocol.close()


class HttpProtocol(HttpToolsProtocol):
    """Protocol for `uvicorn.Config(http=functools.partial(HttpProtocol, connections))`."""

    flow: _Flow

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._connections = connections
        self._limits = connections.limits
        self._unparsed = bytearray()
        self._turn: asyncio.Handle | None = None
        self._expected = _Expected.HEAD
        # Start of the wait for the expected part, in seconds of the loop's clock.
        self._since = 0.0
        # Bytes of the head so far; of the body, as they came and as they are meant.
        self._head = self._wire = self._payload = 0
        self._keep_alive = False
        self._error: ServiceError | None = None
        self._refused_at: float | None = None
        self._lingers = False
        self._served: RequestResponseCycle | None = None
        self._shut: ShutPeer | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._since = self.loop.time()
        self._unread = Unread(transport, self._limits.stall_seconds, self._since)
        if not self._connections.open(self, self.loop):
            self.app = for_probes(self.app)
            self.ws_protocol_class = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.close(self)
        self._unparsed.clear()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close at once, without an answer."""
        self.connections.discard(self)
        if self._served is not None:
            # From now on nothing can be written.
            self._served.disconnected = True
        self.transport.abort()

    @property
    def is_sending(self) -> bool:
        """Whether the last answer is still on its way."""
        return self.transport.get_write_buffer_size() > 0

    # Parsing, a piece at a time

    def data_received(self, data: bytes) -> None:
        """Take bytes of the socket; drop them if the client was refused."""
        if self._refused_at is None:
            self._unparsed += data
            self._parse()

    def _parse(self) -> None:
        """Parse some of the bytes that came; none while a request waits for the answer to the one before."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._unset_keepalive_if_required()
        for _ in range(CHUNKS_PER_TURN):
            if not self._unparsed or self.pipeline or self._is_over:
                break
            piece = bytes(self._unparsed[:CHUNK_BYTES])
            del self._unparsed[:CHUNK_BYTES]
            try:
                self.parser.feed_data(piece)
                self._count(len(piece))
            except httptools.HttpParserUpgrade as upgrade:
                self._unparsed[:0] = piece[upgrade.args[0] :]
                if self._should_upgrade():
                    self._hand_over()
                    return
            except (httptools.HttpParserError, _RefusedError):
                self._refuse(self._error or InvalidRequestError("This is no HTTP request."))
        held = bool(self._unparsed) and not self._is_over
        was_held, self.flow.held = self.flow.held, held
        if held:
            self.flow.pause_reading()
            if not self.pipeline:
                self._turn = self.loop.call_soon(self._parse)
        elif was_held and not self.pipeline and (self.cycle is None or len(self.cycle.body) <= HIGH_WATER_LIMIT):
            self._read_on()

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    @property
    def _is_over(self) -> bool:
        return self._refused_at is not None or self.parser is None or self.transport.is_closing()

    def _count(self, size: int) -> None:
        """Raise _RefusedError where a piece of `size` bytes is too much of what is expected."""
        if self._expected is not _Expected.BODY:
            self._head += size
            if self._head > MAX_HEAD:
                self._stop(HeadTooLargeError(f"The head of a request may have {MAX_HEAD} bytes."))
            return
        self._wire += size
        if self._wire - self._payload > MAX_HEAD + self._payload:
            # Extensions of chunks, trailers, or a chunk for every few bytes. The parser does not report extensions.
            self._stop(InvalidRequestError("The chunks of the body are smaller than what surrounds them."))

    def _stop(self, error: ServiceError) -> None:
        self._error = error
        raise _RefusedError

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expected = _Expected.REST_OF_HEAD
        if self._served is not None:
            self._since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_ADDRESS:
            self._stop(AddressTooLongError(f"The path and query of a request may have {MAX_ADDRESS} bytes."))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._expected is _Expected.BODY:
            return  # a trailer is no header (RFC 9110 section 6.5.1)
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self._stop(HeadTooLargeError(f"A request may have {MAX_HEADERS} headers."))

    def on_headers_complete(self) -> None:
        upgraded = self.parser.should_upgrade() and self._should_upgrade()
        if upgraded and not self._is_idle:
            self._stop(InvalidRequestError("A WebSocket cannot begin before the request ahead of it is answered."))
        super().on_headers_complete()
        if upgraded:
            return
        self._expected = _Expected.BODY
        self._head = self._wire = self._payload = 0
        # An answer that begins before the body has ended says that the connection is closed after it.
        self._keep_alive, self.cycle.keep_alive = self.cycle.keep_alive, False
        self._since = self.loop.time()
        self._connections.head_came(self)
        self.cycle.transport = cast(asyncio.Transport, _Transport(self, self.transport))

    def on_body(self, body: bytes) -> None:
        self._payload += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._expected is _Expected.BODY and not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        self._expected = _Expected.HEAD
        self._since = self.loop.time()
        self._connections.request_came(self)
        super().on_message_complete()

    # Answers

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being served."""
        return self._served is None or (self._served.response_complete and not self.pipeline)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Callable[..., Any]) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_over:
            return
        if self._is_idle and self._expected is not _Expected.BODY:
            self._since = self.loop.time()
            self._connections.answered(self)
        if self._unparsed and self._turn is None:
            self._turn = self.loop.call_soon(self._parse)

    def _refuse(self, error: ServiceError) -> None:
        """Answer with `error` and close. A client that is being answered gets that answer alone."""
        self._unparsed.clear()
        self._refused_at = self.loop.time()
        if self._expected is _Expected.BODY and self.cycle is self._served:
            # The application may wait for the rest.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        elif not self._is_idle and self._served is not None:
            if self._expected is _Expected.BODY:
                self.pipeline.popleft()
            last = self.pipeline[0][0] if self.pipeline else self._served
            last.keep_alive = False
            return
        path = None if self._expected is _Expected.HEAD else self.url.partition(b"?")[0].decode("latin-1")
        self.transport.write(answer_bytes(error, path, self.server_state.default_headers))
        self._linger()

    def close(self) -> None:
        """End the connection after an answer, which may have come before the body."""
        if self._expected is _Expected.BODY and not self._is_over:
            self._refused_at = self.loop.time()
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Close once the client has read the answer, and drop the bytes that it still sends.

        A socket that is closed with unread data resets the connection, and the client may lose the answer.
        """
        self._lingers = True
        self._unparsed.clear()
        self.transport.write_eof()
        self.flow.held = False
        self._read_on()

    def _hand_over(self) -> None:
        """Hand the connection to the protocol of WebSockets, with the bytes after the handshake."""
        rest = bytes(self._unparsed)
        self._unparsed.clear()
        self._connections.close(self)
        self.handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        if rest and isinstance(protocol, asyncio.Protocol):
            protocol.data_received(rest)

    # Time limits

    def check(self, now: float, elapsed: float) -> None:
        """Close the connection if its client is late."""
        if is_closed(self.transport):
            return
        if self._unread.check(now):
            forget(self.transport)
            self.drop()
        elif self.transport.is_closing():
            return
        elif self._refused_at is not None:
            if self._lingers and now - self._refused_at > LINGER:
                self.transport.close()
        elif self._shut is not None:
            self._check_shut(self._shut, now)
        elif self._expected is _Expected.BODY:
            if self.flow.read_paused:
                # The server is slow, not the client.
                self._since += elapsed
            if now - self._since > self._limits.body_seconds + self._payload / MIN_BYTES_PER_SECOND:
                self._refuse(RequestTimeoutError("The body of the request came too slowly."))
        elif self._is_idle and not self._unparsed:
            self._check_head(now - self._since)

    def _check_head(self, waited: float) -> None:
        patience = self._limits.head_seconds
        if self._expected is _Expected.REST_OF_HEAD:
            if waited > patience:
                self._refuse(RequestTimeoutError(f"The head of a request must come within {patience:g} seconds."))
        elif waited > patience + (0 if self._served is None else self.timeout_keep_alive):
            self.transport.close()

    # Clients that shut down their side

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether to keep the connection: for the answer to a request that came whole."""
        if self._is_idle or self._lingers or (self._refused_at is None and self._expected is not _Expected.HEAD):
            return False
        self._shut = ShutPeer(self.transport, self.loop.time())
        self.cycle.keep_alive = False
        return True

    def _check_shut(self, peer: ShutPeer, now: float) -> None:
        """Drop a client that is gone. It is probed with an interim answer (RFC 9110 section 15.2)."""
        served = self._served
        if peer.is_gone():
            self.drop()
        elif served is not None and not served.response_started and peer.is_due(now):
            if served.scope["http_version"] == "1.1":
                self.transport.write(_INTERIM)
            elif now - peer.since > self._limits.stall_seconds:
                # HTTP/1.0 has no interim answers.
                self.drop()
