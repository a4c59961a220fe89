"""Responses that tell an error, in the form that the clients of each surface expect."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from starlette.responses import JSONResponse

from app.errors import ServiceError
from app.observability import logs, metrics
from app.server import deepgram, elevenlabs, libretranslate

log = logging.getLogger("app.requests")

# Characters of a header that is made from a message.
MAX_HEADER_TEXT = 500
# Surfaces whose errors have a form of their own; all others have OpenAI's.
_SURFACES = (deepgram.SURFACE, elevenlabs.SURFACE, libretranslate.SURFACE)


def error_response(
    error: ServiceError, headers: Mapping[str, str] | None = None, *, path: str | None = None
) -> JSONResponse:
    """Return the response that tells `error` in the form of the surface at `path`; None is OpenAI's."""
    note_error(error.code, error.status)
    surface = None if path is None else next((each for each in _SURFACES if each.has(path)), None)
    body = {"error": error.body()} if surface is None else surface.error_body(error)
    return JSONResponse(body, error.status, headers={**error.headers(), **(headers or {})})


def sse_error(error: ServiceError) -> bytes:
    """Return the last event of a stream of server-sent events that failed."""
    note_error(error.code, error.status)
    return b"data: " + json.dumps({"type": "error", "error": error.body()}).encode() + b"\n\n"


def note_error(code: str | None, status: int) -> None:
    """Count and log an error that a client gets. The log has no message: messages quote the client's text."""
    metrics.errors.labels(code or "none").inc()
    logs.event(
        log, logging.WARNING if status >= 500 else logging.INFO, "answered with an error", code=code, status=status
    )


def header_text(text: str) -> str:
    """Return `text` as the value of a header: printable ASCII, everything else escaped, and not too long."""
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text[:MAX_HEADER_TEXT])
