"""The real application and uvicorn as `serve` configures it, with one more path, which sends back what it is sent:
python echo.py PATH.

The product has no such path; everything around it is the product's: uvicorn's WebSockets, the limits, the inbox.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import uvicorn
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.config import load_settings
from app.observability import logs
from app.server.app import create_app
from app.server.serve import configure
from app.server.streaming.inbox import Inbox, SocketClosedError


async def echo(socket: WebSocket) -> None:
    """Each message back, as it came."""
    await socket.accept()
    inbox = Inbox(socket)
    listening = asyncio.create_task(inbox.listen())
    try:
        with suppress(SocketClosedError, WebSocketDisconnect, OSError):
            while True:
                message = await inbox.frame()
                await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))
    finally:
        listening.cancel()


def main() -> None:
    """Serve until SIGTERM."""
    settings = load_settings(None)
    app = create_app(settings)
    app.router.routes.append(WebSocketRoute(sys.argv[1], echo))
    logs.configure(settings.log_level, settings.log_format)
    uvicorn.Server(configure(app, settings)).run()


if __name__ == "__main__":
    main()
