"""Deepgram's `POST /v1/speak`: encodings, containers, rates and errors."""

from typing import Any

import httpx
import pytest

from tests.app.server.streams import reference

TWO = "Hello there, everybody. This is the second sentence."


def post(server: Any, text: object = TWO, **query: object) -> httpx.Response:
    params = {key: str(value) for key, value in query.items()}
    return httpx.post(server.url + "/v1/speak", params=params, json={"text": text}, timeout=60)


def test_headers_name_the_model_and_count_the_characters(server: Any) -> None:
    response = post(server, model="aura-asteria-en")
    assert response.headers["dg-model-name"] == "tone"
    assert response.headers["dg-char-count"] == str(len(TWO))
    assert response.headers["dg-request-id"] == response.headers["x-request-id"]


@pytest.mark.parametrize("encoding", ["opus", "aac"])
def test_a_higher_bit_rate_is_a_longer_file(server: Any, encoding: str) -> None:
    sizes = [len(post(server, encoding=encoding, bit_rate=kbits * 1000).content) for kbits in (16, 32, 64, 96)]
    assert sizes == sorted(set(sizes))


def test_a_refused_bit_rate_is_told_which_there_are(server: Any) -> None:
    for query, accepted in (
        ({"bit_rate": 50_000}, "32, 40, 48, 56"),
        ({"bit_rate": 5_000, "encoding": "opus"}, "6 to 256"),
        ({"bit_rate": 192_000, "encoding": "aac"}, "16 to 96"),
        ({"bit_rate": 192_000, "encoding": "flac"}, "these have: mp3, opus, aac"),
    ):
        assert accepted in post(server, **query).json()["err_msg"]


def test_without_a_container_there_are_only_samples(server: Any) -> None:
    assert post(server, encoding="linear16", container="none").content == reference(server, TWO)
    mulaw = reference(server, TWO, response_format="mulaw")
    assert post(server, encoding="mulaw", container="none").content == mulaw
    wrapped = post(server, encoding="mulaw").content
    assert wrapped[44:] == mulaw


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("UNSUPPORTED_FORMAT", {"encoding": "mp3", "container": "wav"}),
        ("UNSUPPORTED_FORMAT", {"encoding": "opus", "sample_rate": 44_100}),
        ("UNSUPPORTED_FORMAT", {"bit_rate": 256_000, "sample_rate": 48_000, "encoding": "aac"}),
        ("UNSUPPORTED_FORMAT", {"bit_rate": 650_000, "encoding": "opus"}),
        ("UNSUPPORTED_FORMAT", {"bit_rate": 48_000, "encoding": "linear16"}),
        *(("INVALID_REQUEST", {"bit_rate": rate}) for rate in ("low", 500, -32_000)),
        ("INVALID_REQUEST", {"callback": "http://127.0.0.1/"}),
        ("INVALID_REQUEST", {"text": 5}),
    ],
)
def test_errors_have_deepgram_s_shape(server: Any, code: str, query: dict[str, object]) -> None:
    response = post(server, **{"text": "Hi"} | query)
    assert response.status_code == 400, response.text
    told = response.json()
    assert set(told) == {"err_code", "err_msg", "request_id"}
    assert told["err_code"] == code
    assert told["request_id"] == response.headers["x-request-id"]
