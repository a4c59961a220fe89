"""Fields of other clients: null is "not given", and unknown ones change nothing in OpenAI's surface."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from websockets.sync.client import connect

from app.server.schemas import DialogueBody, PhonemesBody, SpeechBody, TranslateBody
from app.server.streaming.events import Start


class LibreBody(BaseModel):
    """Optional fields of LibreTranslate's `/translate`."""

    format: str = ""
    alternatives: int = 0
    api_key: str = ""


def nulls(model: type[BaseModel]) -> dict[str, None]:
    return {field.alias or name: None for name, field in model.model_fields.items() if not field.is_required()}


@pytest.mark.parametrize(
    ("path", "model", "given"),
    [
        ("/v1/audio/speech", SpeechBody, {"input": "Hi."}),
        ("/v1/audio/dialogue", DialogueBody, {"inputs": [{"text": "Hi.", "voice": "steady"}]}),
        ("/v1/phonemes", PhonemesBody, {"input": "Hi."}),
        ("/v1/translate", TranslateBody, {"text": "Hi.", "target": "fr", "source": "en"}),
        ("/translate", LibreBody, {"q": "Hi.", "target": "fr", "source": "en"}),
    ],
)
def test_null_is_not_given(translating: Any, path: str, model: type[BaseModel], given: dict[str, object]) -> None:
    plain = httpx.post(translating.url + path, json=given, timeout=60)
    answer = httpx.post(translating.url + path, json=nulls(model) | given, timeout=60)
    assert (answer.status_code, answer.content) == (plain.status_code, plain.content), answer.text
    assert answer.status_code == 200


def test_null_is_not_given_in_a_message_of_a_socket(server: Any) -> None:
    with connect(server.websocket_url) as socket:
        socket.send(json.dumps(nulls(Start) | {"type": "start"}))
        assert json.loads(socket.recv(timeout=60))["type"] == "ready"


def test_an_error_quotes_little_of_a_large_field(server: Any) -> None:
    kind = {"session": {"type": "transcription", "audio": {"input": {"format": {"type": "v" * 9_000}}}}}
    for path, body in (("phonemes", {"k" * 9_000: 1}), ("realtime/client_secrets", kind)):
        answer = httpx.post(f"{server.url}/v1/{path}", json=body, timeout=60)
        assert answer.status_code == 400
        assert len(answer.content) < 1_000
    with connect(server.websocket_url) as socket:
        socket.send(json.dumps({"type": "start", "k" * 9_000: 1}))
        assert len(socket.recv(timeout=60)) < 1_000


def test_unknown_fields_of_a_request_for_speech_are_named(server: Any) -> None:
    url = server.url + "/v1/audio/speech"
    fields = {"lang_code": "a", "user": "me", "stream": True, "volume_multiplier": 2, "sead": {"x": [1]}, "né": None}
    answer = httpx.post(url, json={"input": "Hi."} | fields, timeout=60)
    assert (answer.status_code, answer.content) == (200, httpx.post(url, json={"input": "Hi."}, timeout=60).content)
    named = "parameter lang_code, parameter user, parameter stream, parameter volume_multiplier, parameter sead"
    assert answer.headers["x-ignored"] == named + r", parameter n\xe9"
    many = httpx.post(url, json={"input": "Hi.", **{f"{n}{'x' * 99}": n for n in range(99)}}, timeout=60)
    assert (many.status_code, len(many.headers["x-ignored"])) == (200, 500)
