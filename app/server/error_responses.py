"""Responses that tell an error, in the form that the clients of each surface expect.

Guards, limits and the cluster's proxy refuse a request before it has a route: its path selects the form.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse

from app.errors import ServiceError
from app.observability import logs, metrics

log = logging.getLogger("app.requests")

# Characters of a header that is made from a message.
MAX_HEADER_TEXT = 500
# Paths of Deepgram's surface.
SPEAK_PATH = "/v1/speak"
LISTEN_PATH = "/v1/listen"
# Path of ElevenLabs' surface.
SPEECH_TO_TEXT_PATH = "/v1/speech-to-text"

Renderer = Callable[[ServiceError], dict[str, Any]]


def _openai(error: ServiceError) -> dict[str, Any]:
    return {"error": error.body()}


def _elevenlabs(error: ServiceError) -> dict[str, Any]:
    return {"detail": {"status": error.code, **error.body()}}


def _deepgram(error: ServiceError) -> dict[str, Any]:
    body = error.body()
    return {"err_code": error.code.upper(), "err_msg": body["message"], "request_id": body.get("request_id")}


def _libretranslate(error: ServiceError) -> dict[str, Any]:
    return {"error": error.body()["message"]}


# Every other path has OpenAI's form.
_RENDERERS: dict[str, Renderer] = {
    SPEAK_PATH: _deepgram,
    LISTEN_PATH: _deepgram,
    SPEECH_TO_TEXT_PATH: _elevenlabs,
    SPEECH_TO_TEXT_PATH + "/realtime": _elevenlabs,
    "/translate": _libretranslate,
    "/detect": _libretranslate,
    "/languages": _libretranslate,
    "/frontend/settings": _libretranslate,
}
# By the beginning of the path: these have more after it.
_FOLDER_RENDERERS: dict[str, Renderer] = {
    "/v1/text-to-speech/": _elevenlabs,
    "/v1/text-to-dialogue": _elevenlabs,
    "/v1/pronunciation-dictionaries": _elevenlabs,
    "/v1/voices": _elevenlabs,
    "/v2/voices": _elevenlabs,
}


def _renderer(path: str) -> Renderer:
    for folder, renderer in _FOLDER_RENDERERS.items():
        if path.startswith(folder):
            return renderer
    return _RENDERERS.get(path, _openai)


def error_response(
    error: ServiceError, headers: Mapping[str, str] | None = None, *, path: str | None = None
) -> JSONResponse:
    """Return the response that tells `error` in the form of the surface at `path`; None is OpenAI's."""
    note_error(error.code, error.status)
    body = _renderer(path or "")(error)
    return JSONResponse(body, error.status, headers={**error.headers(), **(headers or {})})


def sse_error(error: ServiceError) -> bytes:
    """Return the last event of a stream of server-sent events that failed."""
    note_error(error.code, error.status)
    return b"data: " + json.dumps({"type": "error", "error": error.body()}).encode() + b"\n\n"


def note_error(code: str | None, status: int) -> None:
    """Count and log that a client is told of an error, without its message, which quotes the client."""
    metrics.errors.labels(code or "none").inc()
    logs.event(log, logging.WARNING if status >= 500 else logging.INFO, "told of an error", code=code, status=status)


def header_text(text: str) -> str:
    """Return `text` as the value of a header: printable ASCII, everything else escaped, and not too long."""
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text[:MAX_HEADER_TEXT])
