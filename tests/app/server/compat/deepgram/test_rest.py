"""Deepgram's `POST /v1/speak`: encodings, containers, rates and errors."""

import io
from typing import Any

import av
import httpx
import numpy as np
import pytest

TWO = "Hello there, everybody. This is the second sentence."


def reference(server: Any, text: str, **options: object) -> bytes:
    body = {"input": text, "response_format": "pcm", **options}
    return httpx.post(server.url + "/v1/audio/speech", json=body).raise_for_status().content


def post(server: Any, text: object = TWO, **query: object) -> httpx.Response:
    params = {key: str(value) for key, value in query.items()}
    return httpx.post(server.url + "/v1/speak", params=params, json={"text": text}, timeout=60)


@pytest.mark.parametrize(
    ("query", "media_type", "codec", "rate"),
    [
        ({}, "audio/mpeg", "mp3float", 24_000),
        ({"encoding": "linear16"}, "audio/wav", "pcm_s16le", 24_000),
        ({"encoding": "linear16", "container": "wav", "sample_rate": 8000}, "audio/wav", "pcm_s16le", 8_000),
        ({"encoding": "mulaw"}, "audio/wav", "pcm_mulaw", 8_000),
        ({"encoding": "alaw", "sample_rate": 16000}, "audio/wav", "pcm_alaw", 16_000),
        ({"encoding": "opus"}, "audio/ogg", "opus", 48_000),
        ({"encoding": "flac", "sample_rate": 22050}, "audio/flac", "flac", 22_050),
        ({"encoding": "aac"}, "audio/aac", "aac", 24_000),
    ],
)
@pytest.mark.parametrize("text", ["Hello world.", TWO])
def test_the_rest_call(
    server: Any, text: str, query: dict[str, object], media_type: str, codec: str, rate: int
) -> None:
    seconds = len(reference(server, text)) / 48_000
    response = post(server, text, model="aura-asteria-en", **query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == media_type
    assert response.headers["dg-model-name"] == "tone"
    assert response.headers["dg-char-count"] == str(len(text))
    assert response.headers["dg-request-id"] == response.headers["x-request-id"]
    with av.open(io.BytesIO(response.content)) as container:
        stream = container.streams.audio[0]
        assert stream.codec.name == codec
        assert stream.rate == rate
        decoded = np.concatenate([frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)])
    assert seconds - 0.01 <= decoded.size / rate <= seconds + 0.2


@pytest.mark.parametrize("bit_rate", [32_000, 48_000, "64000.0"])
def test_mp3_has_the_bit_rate_asked_for(server: Any, bit_rate: object) -> None:
    with av.open(io.BytesIO(post(server, bit_rate=bit_rate).content), format="mp3") as container:
        assert container.streams.audio[0].codec_context.bit_rate == float(str(bit_rate))


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
    ("text", "query", "status", "code"),
    [
        ("", {}, 400, "EMPTY_INPUT"),
        (5, {}, 400, "INVALID_REQUEST"),
        ("Hi", {"encoding": "mp3", "container": "wav"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"encoding": "opus", "sample_rate": 44_100}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 50_000}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 256_000, "sample_rate": 48_000, "encoding": "aac"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 650_000, "encoding": "opus"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": 48_000, "encoding": "linear16"}, 400, "UNSUPPORTED_FORMAT"),
        ("Hi", {"bit_rate": "low"}, 400, "INVALID_REQUEST"),
        ("Hi", {"bit_rate": 500}, 400, "INVALID_REQUEST"),
        ("Hi", {"bit_rate": -32_000}, 400, "INVALID_REQUEST"),
        ("Hi", {"callback": "http://127.0.0.1/"}, 400, "INVALID_REQUEST"),
    ],
)
def test_errors_have_deepgram_s_shape(
    server: Any, text: object, query: dict[str, object], status: int, code: str
) -> None:
    response = post(server, text, **query)
    assert response.status_code == status, response.text
    told = response.json()
    assert set(told) == {"err_code", "err_msg", "request_id"}
    assert told["err_code"] == code
    assert told["request_id"] == response.headers["x-request-id"]
