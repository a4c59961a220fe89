"""ElevenLabs' surface, over HTTP and WebSockets."""

from __future__ import annotations

from app.server.surface import Surface

SPEECH_TO_TEXT_PATH = "/v1/speech-to-text"


SURFACE = Surface(
    (
        SPEECH_TO_TEXT_PATH,
        f"{SPEECH_TO_TEXT_PATH}/realtime",
        "/v1/text-to-speech/*",
        "/v1/text-to-dialogue*",
        "/v1/pronunciation-dictionaries*",
        "/v1/voices*",
        "/v2/voices*",
    ),
    lambda error: {"detail": {"status": error.code, **error.body()}},
)
