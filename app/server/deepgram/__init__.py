"""Deepgram's surface, over HTTP and WebSockets (developers.deepgram.com, "Text to Speech", "Speech to Text")."""

from __future__ import annotations

from typing import Any

from app.errors import ServiceError
from app.server.surface import Surface

SPEAK_PATH = "/v1/speak"
LISTEN_PATH = "/v1/listen"


def _error_body(error: ServiceError) -> dict[str, Any]:
    body = error.body()
    return {"err_code": error.code.upper(), "err_msg": body["message"], "request_id": body.get("request_id")}


SURFACE = Surface((SPEAK_PATH, LISTEN_PATH), _error_body)
