"""LibreTranslate's surface."""

from __future__ import annotations

from typing import Any

from app.errors import ServiceError
from app.server.surface import Surface


def _error_body(error: ServiceError) -> dict[str, Any]:
    return {"error": error.body()["message"]}


SURFACE = Surface(("/translate", "/detect", "/languages", "/frontend/settings"), _error_body)
