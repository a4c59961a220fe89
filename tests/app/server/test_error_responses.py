"""Form of an error on each surface."""

from __future__ import annotations

import json

import pytest

from app.errors import OverloadedError, UnknownVoiceError
from app.server.error_responses import error_response, header_text, sse_error

ERROR = UnknownVoiceError("No such voice.")
BODY = {"message": "No such voice.", "type": "invalid_request_error", "param": "voice", "code": "unknown_voice"}


FORMS: dict[tuple[str | None, ...], dict[str, object]] = {
    (None, "/v1/audio/speech", "/nothing", "/translate/"): {"error": BODY},
    ("/v1/speak",): {"err_code": "UNKNOWN_VOICE", "err_msg": "No such voice.", "request_id": None},
    ("/translate", "/detect", "/languages", "/frontend/settings"): {"error": "No such voice."},
    ("/v1/text-to-speech/silky/stream", "/v1/voices", "/v2/voices"): {"detail": {"status": "unknown_voice", **BODY}},
}


@pytest.mark.parametrize(("path", "form"), [(path, form) for paths, form in FORMS.items() for path in paths])
def test_each_surface_has_its_form(path: str | None, form: dict[str, object]) -> None:
    response = error_response(ERROR, path=path)
    assert response.status_code == 400
    assert json.loads(bytes(response.body)) == form


def test_headers_are_those_of_the_error_and_the_caller() -> None:
    response = error_response(OverloadedError("full", retry_after=2), {"connection": "close"})
    assert response.status_code == 503
    assert (response.headers["retry-after"], response.headers["connection"]) == ("2", "close")


def test_an_event_carries_the_same_body() -> None:
    event = sse_error(ERROR)
    assert event.endswith(b"\n\n")
    assert json.loads(event.removeprefix(b"data: ")) == {"type": "error", "error": BODY}


def test_a_header_is_printable_ascii_and_not_too_long() -> None:
    assert header_text("a\r\nb é") == "a\\r\\nb \\xe9"
    assert len(header_text("x" * 1_000)) == 500
