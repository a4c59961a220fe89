"""Messages of the realtime sockets that all sessions share: how one is read, and how an error is told."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from typing import Any

from app.errors import ProtocolError, ServiceError
from app.server.error_responses import note_error
from app.server.streaming.events import read_json


def new_id(prefix: str) -> str:
    """Return a new identifier in the form of OpenAI's: the prefix, an underscore and 24 hexadecimal digits."""
    return f"{prefix}_{secrets.token_hex(12)}"


def read_event(frame: str | bytes, most: int) -> dict[str, Any]:
    """Return an event of the client: a JSON object with a `type`. Raises BodyTooLargeError, ProtocolError."""
    result = read_json(frame, most)
    if not isinstance(result, dict):
        raise ProtocolError("The message must be a JSON object.")
    if not isinstance(result.get("type"), str):
        raise ProtocolError("The message needs a 'type'.", param="type")
    return result


def read_audio(event: dict[str, Any], field: str = "audio") -> bytes:
    """Return the bytes of a field in Base64. Raises ProtocolError."""
    audio = event.get(field)
    if not isinstance(audio, str):
        raise ProtocolError(f"'{field}' must be a string of Base64.", param=field)
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(f"'{field}' is not valid Base64.", param=field) from None


def write_event(kind: str, **fields: Any) -> str:
    """Return an event of the server with a new id."""
    return json.dumps({"type": kind, "event_id": new_id("event"), **fields})


def write_error(error: ServiceError, event: dict[str, Any] | None = None) -> str:
    """Return the event that tells `error`, which the client's `event` caused, and count it."""
    note_error(error.code, error.status)
    cause = None if event is None else event.get("event_id")
    body = {key: value for key, value in error.body().items() if key != "request_id"}
    return write_event("error", error={**body, "event_id": cause if isinstance(cause, str) else None})
