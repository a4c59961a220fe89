"""Events of Wyoming as bytes: a line of JSON, `data_length` bytes of JSON and `payload_length` bytes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from app import __version__
from app.engine.turns import Turns
from app.errors import BodyTooLargeError, ProtocolError
from app.server.json_values import LARGE


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a client: its type, its data, and its bytes, which are audio."""

    kind: str
    data: dict[str, Any]
    payload: bytes = b""


async def read_event(reader: asyncio.StreamReader, limit: int, audio_limit: int, turns: Turns) -> Event | None:
    """Return the next event; None: the client sends no more. Large ones are parsed by `turns`.

    Header and data have at most `limit` bytes each, the payload `audio_limit`. Raises BodyTooLargeError, ProtocolError.
    """
    try:
        line = await reader.readline()
    except ValueError:  # asyncio's error for a line above the limit
        raise BodyTooLargeError(f"A header of more than {limit} bytes.") from None
    if not line:
        return None
    if len(line) > LARGE:
        await turns.pace()
    header = _json_object(line, "header")
    kind, data = header.get("type"), header.get("data") or {}
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise ProtocolError("An event's header needs a 'type', a string; its 'data' must be an object.")
    size, payload = _length(header, "data_length", limit), _length(header, "payload_length", audio_limit)
    try:
        if size:
            found = await reader.readexactly(size)
            if size > LARGE:
                await turns.pace()
            data = data | _json_object(found, "data")
        return Event(kind, data, await reader.readexactly(payload) if payload else b"")
    except asyncio.IncompleteReadError:
        return None


def encode_event(kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> bytes:
    """Return the bytes of an event."""
    header: dict[str, Any] = {"type": kind, "version": __version__}
    body = json.dumps(data).encode() if data else b""
    if body:
        header["data_length"] = len(body)
    if payload:
        header["payload_length"] = len(payload)
    return json.dumps(header).encode() + b"\n" + body + payload


def _json_object(text: bytes, what: str) -> dict[str, Any]:
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError(f"The {what} of an event is not valid JSON.") from None
    if not isinstance(result, dict):
        raise ProtocolError(f"The {what} of an event must be a JSON object.")
    return result


def _length(header: dict[str, Any], key: str, limit: int) -> int:
    size = header.get(key)
    if size is None:
        return 0
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ProtocolError(f"'{key}' must be a number of bytes.")
    if size > limit:
        raise BodyTooLargeError(f"'{key}' is too large; at most {limit} bytes are accepted.")
    return size
