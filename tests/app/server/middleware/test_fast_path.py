"""The short way past the router leads where the router leads."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.server.routes import speech

SPEECH = "/v1/audio/speech"
SHORT, LONG = "application/json", "application/vnd.speech+json"


def post(server: Any, kind: str, body: bytes) -> httpx.Response:
    return httpx.post(server.url + SPEECH, content=body, headers={"content-type": kind, "x-request-id": "same"})


@pytest.mark.parametrize(
    "body",
    [
        b'{"input": "Hello world."}',
        b'{"input": "Hello.", "voice": {"id": "silky"}, "response_format": "pcm", "speed": 2, "seed": 4294967295}',
        '{"input": "Grüße."}'.encode("utf-16"),
        b'{"input": "One. Two.", "stream_format": "sse"}',
        b"",
        b"[]",
        b"{",
        b'"text"',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"{}",
        b'{"input": 5}',
        b'{"input": "\\ud800"}',
        b'{"input": "Hello.", "sped": 2}',
        b'{"input": "Hello.", "speed": NaN}',
        b'{"input": "Hello.", "seed": true}',
        b'{"input": "  "}',
        b'{"input": "Hello.", "voice": "nobody"}',
        b'{"input": "Hello.", "model": "nothing"}',
        b'{"input": "Hello.", "response_format": "tape"}',
        b'{"input": "Hello. [pause:", "response_format": "srt"}',
    ],
)
def test_both_ways_answer_alike(server: Any, body: bytes) -> None:
    short, long = post(server, SHORT, body), post(server, LONG, body)
    assert (short.status_code, short.content) == (long.status_code, long.content)
    told = [
        {name: value for name, value in each.headers.items() if name not in ("date", "server-timing")}
        for each in (short, long)
    ]
    assert told[0] == told[1]


def test_a_usual_request_does_not_meet_the_router(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("the router's way")

    monkeypatch.setattr(speech, "services", broken)
    usual = b'{"input": "Hello world."}'
    assert post(server, SHORT, usual).status_code == 200
    assert post(server, "Application/JSON; charset=utf-8", usual).status_code == 200
    assert post(server, LONG, usual).status_code == 500


def test_other_methods_and_paths_are_the_router_s(server: Any) -> None:
    assert httpx.get(server.url + SPEECH).status_code == 405
    assert httpx.post(server.url + SPEECH + "/x", json={"input": "Hello."}).status_code == 404


def test_a_later_sentence_that_fails_is_told_while_it_can_be(server: Any) -> None:
    for kind in (SHORT, LONG):
        server.tone.begun.clear()
        body = b'{"input": "One. Two.", "voice": "breaks_second", "response_format": "srt"}'
        answer = post(server, kind, body)
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "model_failed"
