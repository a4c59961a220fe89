"""uvicorn's WebSocket protocol, with corrections where uvicorn or `websockets` differ from RFC 6455 or from our needs.

The limit on frames counts every kind: control frames, fragments and empty messages cost as much as others.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
from typing import Any

from starlette.types import Message
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import HeaderLineTooLong, PayloadTooBig, RequestLineTooLong, TooManyHeaders
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from app.engine.admission import TokenBucket
from app.errors import HeadTooLargeError, InvalidRequestError
from app.server.connections import Connections, Unread, answer_bytes, forget, is_closed
from app.server.error_responses import note_error
from app.server.middleware.limits import BURST_SECONDS, POLICY_VIOLATION
from app.server.streaming.inbox import AHEAD

# Seconds for which the bytes of a failed client are read: in all, and after the last byte.
LINGER = 2.0
QUIET = 0.2
# Bytes of a close reason (section 5.5: a control frame has 125, and the code takes two).
MAX_REASON = 123
# Bytes of a piece that is parsed at once, and pieces that are parsed before other tasks run.
CHUNK_BYTES = 4_096
CHUNKS_PER_TURN = 16
# Share of the largest message above which a text is ASCII, as recordings are: one wide character makes each of the
# others take four bytes of memory.
WIDE = 0.25

_UTF8 = codecs.getincrementaldecoder("utf-8")

# uvicorn logs the query of each handshake, which may hold a key. `app.requests` logs a line without it.
_log = logging.getLogger(__name__)
_log.setLevel(logging.WARNING)


class _WideTextError(PayloadTooBig):
    def __str__(self) -> str:
        return f"A text of more than {self.max_size} bytes must be ASCII."


class _Connection(ServerProtocol):
    _ascii = True
    _text: codecs.IncrementalDecoder | None = None
    # Frames of every kind since the last count.
    frames = 0

    def recv_frame(self, frame: Frame) -> None:
        self.frames += 1
        if frame.opcode is Opcode.CLOSE:
            # Section 5.4 allows control frames between the fragments of a message. websockets would answer a close
            # there with 1002, an error.
            self.current_size = None
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._text = _UTF8() if frame.opcode is Opcode.TEXT else None
            self._ascii = True
        text = self._text if frame.opcode in (Opcode.TEXT, Opcode.CONT) else None
        if text is not None:
            self._ascii = self._ascii and bytes(frame.data).isascii()
            before, most = self.current_size or 0, int((self.max_message_size or 0) * WIDE)
            if before + len(frame.data) > most and not self._ascii:
                raise _WideTextError(before + len(frame.data), most - before)
        super().recv_frame(frame)
        if text is not None:
            # Its error closes with 1007 at the first wrong fragment. Without this, uvicorn logs a traceback later.
            text.decode(bytes(frame.data), frame.fin)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Protocol for `uvicorn.Config(ws=functools.partial(WebSocketProtocol, connections))`.

    It offers no extensions, such as compression.
    """

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _log
        self._frames = _Connection(max_size=self.config.ws_max_size, logger=logging.getLogger("uvicorn.error"))
        self.conn = self._frames
        self._failed_at: float | None = None
        # It would log headers, with keys, and the texts of people.
        self.conn.debug = False
        self._connections = connections
        self._rate = connections.limits.frames_per_second
        self._bucket = TokenBucket.full(self._rate, self._rate * BURST_SECONDS, self.loop.time())
        self._unparsed = bytearray()
        self._turn: asyncio.Handle | None = None
        # Whether the message that the application has, or gets next, is one that none is read ahead of.
        self._is_large = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._unread = Unread(self.transport, self._connections.limits.stall_seconds, self.loop.time())
        self._connections.add(self, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.close(self)
        self._unparsed.clear()
        super().connection_lost(exc)

    def check(self, now: float, elapsed: float) -> None:
        """Drop a client that reads nothing."""
        if not is_closed(self.transport) and self._unread.check(now):
            forget(self.transport)
            self.drop()

    def shutdown(self) -> None:
        """Close as uvicorn does. It would raise an error for a client that has closed and does not read the answer."""
        if self.conn.close_rcvd is None:
            super().shutdown()
        else:
            self.drop()

    def drop(self) -> None:
        """Close at once, without a close frame."""
        # No more can be written.
        self.disconnected = True
        self.transport.abort()

    @property
    def is_sending(self) -> bool:
        """Whether the last frame is still being sent."""
        return self.transport.get_write_buffer_size() > 0

    def data_received(self, data: bytes) -> None:
        """Take bytes of the socket. Those of a client that failed are dropped."""
        if self._failed_at is not None:
            self._close_when_quiet(self._failed_at)
        elif not self.handshake_initiated:
            super().data_received(data)
            if not self.handshake_initiated:
                self._refuse_handshake(self.conn.handshake_exc)
        else:
            self._unparsed += data
            self._parse()

    def _parse(self) -> None:
        """Parse some of the bytes: none before the end of the handshake, or while the application has a message."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        for _ in range(CHUNKS_PER_TURN):
            if not self._unparsed or self._must_wait or self._is_over:
                break
            piece = bytes(self._unparsed[:CHUNK_BYTES])
            del self._unparsed[:CHUNK_BYTES]
            super().data_received(piece)
            self._count()
        if self.transport.is_closing():
            return
        if self._failed_at is not None:
            self._unparsed.clear()
        elif self._must_wait or self._unparsed:
            self.transport.pause_reading()
            if not self._must_wait:
                self._turn = self.loop.call_soon(self._parse)
            return
        self.transport.resume_reading()

    @property
    def _must_wait(self) -> bool:
        return self.read_paused or not self.handshake_complete

    @property
    def _is_over(self) -> bool:
        return self._failed_at is not None or self.transport.is_closing()

    def _count(self) -> None:
        """Count frames. Close with 1008 where they come faster than they may."""
        count, self._frames.frames = self._frames.frames, 0
        now = self.loop.time()
        if not count or self._is_over:
            return
        if self._bucket.wait(count, now) <= 0:
            self._bucket = self._bucket.take(count, now)
            return
        note_error("too_many_messages", 429)
        if self.close_sent:
            self.transport.close()
            return
        reason = f"At most {self._rate} messages a second are accepted; fragments and control frames count."
        self.conn.fail(POLICY_VIOLATION, reason)
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Queue a message as uvicorn does. Note its size."""
        self._is_large = sum(map(len, self.frames)) > AHEAD
        super().send_receive_event_to_app()

    async def receive(self) -> Message:  # type: ignore[override]
        """Return the next message. Reading goes on when none is left; after a large one, when this is called again."""
        if self.queue.empty():
            self._read_on()
        message: Any = await self.queue.get()
        if self.queue.empty() and not self._is_large:
            self._read_on()
        return message  # type: ignore[no-any-return]

    def _read_on(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._go_on()

    def _go_on(self) -> None:
        if self._turn is None and not self._is_over:
            self._turn = self.loop.call_soon(self._parse)

    async def send(self, message: Any) -> None:
        """Send as uvicorn does. Also cut a reason to its length, and note the end of a refusal."""
        if message["type"] == "websocket.close" and message.get("reason"):
            reason = message["reason"].encode("utf-8", "replace")[:MAX_REASON].decode("utf-8", "ignore")
            message = {**message, "reason": reason}
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            # Without this, uvicorn finds no answer to the handshake, and logs an error.
            self.handshake_complete = True
        elif message["type"] == "websocket.accept":
            self._go_on()
        elif message["type"] == "websocket.close":
            # The client must still answer the close, but its place is free for another.
            self._connections.answered(self)
            self.read_paused = False
            self._go_on()

    def _refuse_handshake(self, error: Exception | None) -> None:
        """Answer a handshake that the library cannot read, and that it leaves without an answer."""
        long = isinstance(error, RequestLineTooLong | HeaderLineTooLong | TooManyHeaders)
        refusal = HeadTooLargeError if long else InvalidRequestError
        answer = answer_bytes(refusal(f"The handshake of a WebSocket is not valid: {error}."), None, [])
        self.handshake_complete = self.close_sent = True
        self.transport.write(answer)
        self.transport.close()

    def handle_parser_exception(self) -> None:
        """Tell a client that broke the protocol, or sent too much, and drop the rest of its bytes.

        A socket that is closed with data unread is reset by TCP, and the client may never see the reason (RFC 6455,
        section 7.1.1). A later send raises ClientDisconnected, an OSError. In uvicorn it would raise RuntimeError until
        the last bytes are sent, as if the application had closed.
        """
        close = self.conn.close_sent
        code, reason = (1006, "") if close is None else (close.code, close.reason)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.stop_keepalive()
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self.disconnected = True
        self._failed_at = self.loop.time()
        self._close_when_quiet(self._failed_at)

    def _close_when_quiet(self, failed_at: float) -> None:
        if self.close_timer is not None:
            self.close_timer.cancel()
        self.close_timer = self.loop.call_at(min(self.loop.time() + QUIET, failed_at + LINGER), self.transport.close)

    def keepalive_timeout(self) -> None:
        """Close as uvicorn does where the client answers no ping. A later send raises ClientDisconnected.

        The answer may wait behind messages that this side has not read yet: then the client has more time.
        """
        if self.read_paused or self._unparsed:
            self.pong_timer = self.loop.call_later(self.ping_timeout or 0.0, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self.disconnected = self.disconnected or self.close_sent
