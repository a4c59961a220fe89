"""The body of `POST /v1/audio/speech`: JSON of either name, and what is wrong with one that is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

SPEECH = "/v1/audio/speech"
KINDS = ("application/json", "Application/JSON; charset=utf-8", "application/vnd.speech+json")


def post(server: Any, kind: str, body: bytes) -> httpx.Response:
    return httpx.post(server.url + SPEECH, content=body, headers={"content-type": kind, "x-request-id": "same"})


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"input": "Hello world."}', 200, None),
        (
            b'{"input": "Hello.", "voice": {"id": "silky"}, "response_format": "pcm", "speed": 2, "seed": 4294967295}',
            200,
            None,
        ),
        ('{"input": "Grüße."}'.encode("utf-16"), 200, None),
        (b'{"input": "One. Two.", "stream_format": "sse"}', 200, None),
        (b"[]", 400, "invalid_request"),
        (b"[" * 100_000, 413, "body_too_large"),
        (b"{}", 400, "invalid_request"),
        (b'{"input": 5}', 400, "invalid_request"),
        (b'{"input": "Hello.", "seed": true}', 400, "invalid_request"),
        (b'{"input": "Hello. [pause:", "response_format": "srt"}', 400, "invalid_markup"),
    ],
)
def test_every_name_of_json_is_answered_alike(server: Any, body: bytes, status: int, code: str | None) -> None:
    answers = [post(server, kind, body) for kind in KINDS]
    first = answers[0]
    assert first.status_code == status
    assert first.headers["x-request-id"] == "same"
    if code is not None:
        assert first.json()["error"]["code"] == code

    def told(answer: httpx.Response) -> dict[str, str]:
        return {name: value for name, value in answer.headers.items() if name not in ("date", "server-timing")}

    for other in answers[1:]:
        assert (other.status_code, other.content, told(other)) == (status, first.content, told(first))


@pytest.mark.parametrize(
    ("kind", "body", "message", "param"),
    [
        ("application/json", b"{", "The body is not valid JSON: Expecting property name", None),
        ("application/json", b"\xff\xfe\x00", "There was an error parsing the body.", None),
        ("application/json", b"", "The body must be a JSON object", None),
        ("text/plain", b'{"input": "Hello."}', "The body must be a JSON object", None),
        ("application/json", b"{}", "Missing required parameter: 'input'.", "input"),
        ("application/json", b'{"input": "Hello.", "sped": 2}', "Unknown parameter: 'sped'; accepted are any_", "sped"),
        ("application/json", b'{"input": "Hello.", "speed": NaN}', "Invalid 'speed': ", "speed"),
    ],
)
def test_a_refusal_says_what_is_wrong(server: Any, kind: str, body: bytes, message: str, param: str | None) -> None:
    answer = post(server, kind, body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith(message)
    assert error["param"] == param


def test_other_methods_and_paths_are_refused(server: Any) -> None:
    assert httpx.get(server.url + SPEECH).status_code == 405
    assert httpx.post(server.url + SPEECH + "/x", json={"input": "Hello."}).status_code == 404


def test_a_later_sentence_that_fails_is_told_while_it_can_be(server: Any) -> None:
    server.tone.begun.clear()
    body = b'{"input": "One. Two.", "voice": "breaks_second", "response_format": "srt"}'
    answer = post(server, "application/json", body)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "model_failed"
