"""`WS /v1/audio/stream`: the streaming protocol of this server, in JSON messages and binary audio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from fastapi import APIRouter, WebSocket

from app.observability import metrics
from app.server.state import services
from app.server.streaming import events
from app.server.streaming.adapter import Adapter
from app.server.streaming.effects import Effect
from app.server.streaming.session import StreamSession
from app.server.streaming.session_socket import SessionSocket

router = APIRouter()


@router.websocket("/v1/audio/stream")
async def stream(socket: WebSocket) -> None:
    """Serve one socket."""
    await socket.accept()
    await SessionSocket(socket, services(socket), JsonAdapter()).serve()


class JsonAdapter(Adapter):
    """Frames that are the session's own messages, as JSON."""

    surface: ClassVar[metrics.SurfaceName] = "websocket"

    def receive(self, session: StreamSession, frame: str | bytes, now: float) -> list[Effect]:
        """Hand the frame on as it is."""
        return session.receive(frame, now)

    def event_frames(self, event: events.Outgoing) -> Iterable[str | bytes]:
        """Return the event as JSON."""
        return (event.model_dump_json(),)
