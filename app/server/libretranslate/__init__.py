"""LibreTranslate's surface."""

from __future__ import annotations

from app.server.surface import Surface

SURFACE = Surface(
    ("/translate", "/detect", "/languages", "/frontend/settings"), lambda error: {"error": error.body()["message"]}
)
