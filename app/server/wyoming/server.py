"""Wyoming's TCP server.

`describe` is answered by `info`, `ping` by `pong`. `synthesize` speaks a text. `synthesize-start`, `-chunk` and `-stop`
speak a text that is still being written: it is cleaned as a language model's, and spoken sentence by sentence. Each
text is a session of the streaming protocol. Audio goes out as `audio-start`, `audio-chunk` and `audio-stop`;
`synthesize-stopped` ends a stream.

`transcribe`, `audio-start`, `audio-chunk` and `audio-stop` carry a recording, which `transcript-start`, `-chunk`,
`transcript` and `-stop` answer.

The protocol has no keys, so the server listens on this machine alone unless `wyoming_host` says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import uuid

from app import request_context
from app.errors import OverloadedError
from app.server.state import Services
from app.server.wyoming.client import WyomingClient

log = logging.getLogger(__name__)


class WyomingServer:
    """TCP server that serves each client in a task of its own."""

    def __init__(self, app: Services) -> None:
        self._app = app
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        limit = self._app.settings.max_frame_bytes
        self._server = await asyncio.start_server(self._serve, host, port, limit=limit)
        where = self._server.sockets[0].getsockname()
        log.info("Wyoming listens on tcp://%s:%d", where[0], where[1])

    async def stop(self) -> None:
        """Break off every connection."""
        if self._server is None:
            return
        self._server.close()
        for client in self._clients:
            client.cancel()
        if self._clients:
            await asyncio.wait(self._clients)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a client is served outside of a task")
        request_context.request_id.set(uuid.uuid4().hex)
        most = self._app.settings.max_streams
        full = len(self._clients) >= most
        if len(self._clients) >= 2 * most:
            # So many clients are being refused that this one is not even told.
            writer.transport.abort()
            return
        self._clients.add(task)
        try:
            client = WyomingClient(reader, writer, self._app)
            if full:
                await client.refuse(OverloadedError("Too many clients are connected already; try again shortly."))
            else:
                await client.serve()
        except (OSError, TimeoutError):
            pass  # the client left, or reads nothing
        except asyncio.CancelledError:
            # The server stops. asyncio's stream server would log a task that ends as cancelled.
            pass
        finally:
            await self._close(writer)
            self._clients.discard(task)

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Close after the last event left; wait `stall_seconds` at most, as for any other."""
        writer.close()
        try:
            async with asyncio.timeout(self._app.settings.stall_seconds):
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
