"""uvicorn's WebSockets where it, or the library below it, falls short of RFC 6455 or of the applications above."""

from __future__ import annotations

import codecs
import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

# Seconds for which what a failed client still sends is read, at most and after its last byte.
LINGER = 2.0
QUIET = 0.2

_UTF8 = codecs.getincrementaldecoder("utf-8")


class _Connection(ServerProtocol):
    _text: codecs.IncrementalDecoder | None = None

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            # Section 5.4 allows control frames between the fragments of a message. websockets would answer a client
            # that closes there with 1002, as if it had done wrong.
            self.current_size = None
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._text = _UTF8() if frame.opcode is Opcode.TEXT else None
        super().recv_frame(frame)
        if self._text is not None and frame.opcode in (Opcode.TEXT, Opcode.CONT):
            # Its error closes with 1007, at the first fragment that is wrong. Later, uvicorn would log a traceback.
            self._text.decode(bytes(frame.data), frame.fin)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=...)`. Extensions, such as compression, are not offered."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _Connection(max_size=self.config.ws_max_size, logger=logging.getLogger("uvicorn.error"))
        self._failed_at: float | None = None
        # It would log headers, keys among them, and what people say.
        self.conn.debug = False

    def data_received(self, data: bytes) -> None:
        """What the socket brings; from a client that failed it is dropped."""
        if self._failed_at is None:
            super().data_received(data)
        else:
            self._close_when_quiet(self._failed_at)

    def handle_parser_exception(self) -> None:
        """The client broke the protocol, or sent more than is read: tell it, and drop what it is still sending.

        Closed with data unread, TCP resets the connection, and the client may never see why (RFC 6455, section 7.1.1).
        What is sent from now on raises ClientDisconnected, an OSError; in uvicorn it raises RuntimeError until the last
        bytes are through, as if the application had closed.
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
        """The client does not answer pings; likewise."""
        super().keepalive_timeout()
        self.disconnected = self.disconnected or self.close_sent
