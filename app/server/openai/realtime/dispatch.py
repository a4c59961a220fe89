"""One message of a realtime client, to the method for its event. An error of the client leaves the session open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from app.errors import (
    BodyTooLargeError,
    DrainingError,
    IdleTimeoutError,
    ProtocolError,
    QuotaExceededError,
    ServiceError,
)
from app.server.openai.realtime.events import read_event, write_error
from app.server.streaming.socket import SocketLoop

Handlers = Mapping[str, Callable[[dict[str, Any]], Awaitable[None]]]

# Errors after which a session cannot go on.
_FATAL: Final = (BodyTooLargeError, QuotaExceededError, DrainingError, IdleTimeoutError)


async def carry_out(socket: SocketLoop, frame: str | bytes, handlers: Handlers, session: str) -> None:
    """Carry out the event in `frame`, or tell the client why not. Raises ServiceError where the session ends.

    `handlers`: methods by the type of their event. `session`: kind of session, for messages.
    """
    event: dict[str, Any] | None = None
    try:
        with socket.throttle.measure():
            event = read_event(frame, socket.app.settings.max_audio_frame_bytes)
            handler = handlers.get(event["type"])
            if handler is None:
                known = ", ".join(handlers)
                raise ProtocolError(f"'{event['type'][:60]}' is no event of a {session} session: {known}.")
        await handler(event)
    except _FATAL:
        raise
    except ServiceError as error:
        if error.status >= 500:
            raise
        await socket.send(write_error(error, event))
    await socket.throttle.wait()
