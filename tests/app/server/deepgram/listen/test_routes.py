"""Deepgram's `POST /v1/listen` over a real socket, with a recognizer that hears seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.app.audio.recordings import tone, written

PATH = "/v1/listen"
RECORDING = written(tone(2.5, 16_000), 16_000)
TEXT = "en second 0. en second 1. en second 2."


def post(server: Any, body: Any = RECORDING, *, kind: str = "audio/wav", **query: Any) -> httpx.Response:
    return httpx.post(server.url + PATH, content=body, params=query, headers={"content-type": kind})


def error(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"err_code", "err_msg", "request_id"}
    assert len(body["err_msg"]) < 600
    return response.status_code, body["err_code"]


def test_a_recording_has_metadata_and_words(hearing: Any) -> None:
    response = post(hearing, model="nova-3", smart_format="true", punctuate="true", profanity_filter="true", tag="x")
    assert response.headers["content-type"] == "application/json"
    assert "encode;dur=" in response.headers["server-timing"]
    body = response.json()
    metadata, results = body["metadata"], body["results"]
    assert metadata["request_id"] == response.headers["dg-request-id"] == response.headers["x-request-id"]
    assert metadata["sha256"] == hashlib.sha256(RECORDING).hexdigest()
    assert (metadata["duration"], metadata["channels"], metadata["transaction_key"]) == (2.5, 1, "deprecated")
    (model,) = metadata["models"]
    assert metadata["model_info"] == {model: {"name": "ear", "version": "1", "arch": "ear"}}
    (channel,) = results["channels"]
    (alternative,) = channel["alternatives"]
    assert (alternative["transcript"], alternative["confidence"]) == (TEXT, 0.9)
    assert channel["detected_language"] == "en"
    assert "utterances" not in results
    assert len(alternative["words"]) == 9
    word = {"word": "0", "start": 0.667, "end": 1.0, "confidence": 0.9, "punctuated_word": "0."}
    assert alternative["words"][2] == word


def test_the_options_reach_the_model(hearing: Any) -> None:
    terms = {"keyterm": ["Nightingale", "MLX"], "keywords": "Kokoro:2"}
    body = post(hearing, model="ear", language="fr-CA", diarize="false", callback="", **terms).json()
    (request,) = hearing.ear.requests
    assert (request.language, request.prompt) == ("fr", "Nightingale, MLX, Kokoro.")
    assert request.word_times
    assert "detected_language" not in body["results"]["channels"][0]


def test_languages_may_be_detected(hearing: Any) -> None:
    for query in ({"language": "multi"}, {"detect_language": "true", "language": "de"}, {}):
        channel = post(hearing, **query).json()["results"]["channels"][0]
        assert channel["detected_language"] == "en"
    # English is not one of these.
    hints = {"language": "multi", "language_hint": ["fr", "en"]}
    for query, detected in (({"detect_language": ["de", "fr"]}, "de"), (hints, "en")):
        assert post(hearing, **query).json()["results"]["channels"][0]["detected_language"] == detected


def test_utterances_end_at_pauses(hearing: Any) -> None:
    (whole,) = post(hearing, utterances="true").json()["results"]["utterances"]
    assert (whole["start"], whole["end"], whole["transcript"], whole["channel"]) == (0.0, 2.5, TEXT, 0)
    parts = post(hearing, utterances="true", utt_split="0").json()["results"]["utterances"]
    assert len(parts) == 9


def test_a_container_wins_over_its_name(hearing: Any) -> None:
    response = post(hearing, encoding="linear16", sample_rate="48000")
    assert response.json()["metadata"]["duration"] == 2.5
    flac = written(tone(1.0, 16_000), 16_000, container="FLAC")
    assert post(hearing, flac, encoding="flac").json()["metadata"]["duration"] == 1.0


SAMPLES = {"encoding": "linear16", "sample_rate": "8000"}


@pytest.mark.parametrize(
    "query",
    [
        {"callback": "http://127.0.0.1/"}, {"diarize": "true"}, {"multichannel": "true"}, {"redact": "pci"},
        {"summarize": "v2"}, {"paragraphs": "true"}, {"encoding": "g729"}, {"encoding": "linear16"},
        SAMPLES | {"sample_rate": "x"}, SAMPLES | {"sample_rate": "7999"}, SAMPLES | {"channels": "9"},
        SAMPLES | {"channels": "two"}, {"utt_split": "-1"}, {"utt_split": "nan"}, {"keyterm": ["x"] * 101},
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(hearing: Any, query: dict[str, Any]) -> None:
    code = "UNSUPPORTED_FORMAT" if query.get("encoding") == "g729" else "INVALID_REQUEST"
    assert error(post(hearing, **query)) == (400, code)
    assert len(hearing.ear.requests) <= 1


def test_addresses_are_refused(hearing: Any) -> None:
    response = post(hearing, json.dumps({"url": "http://127.0.0.1/a.wav"}), kind="application/json")
    assert error(response) == (400, "INVALID_REQUEST")
    assert "sends no requests" in response.json()["err_msg"]


def test_bad_bodies_are_refused(hearing: Any) -> None:
    assert error(post(hearing, b"")) == (400, "INVALID_REQUEST")
    long = written(tone(61.0, 8_000), 8_000)
    assert error(post(hearing, long)) == (400, "UNUSABLE_RECORDING")

    def pieces() -> Iterator[bytes]:
        for _ in range(5):
            yield bytes(1 << 20)

    # Without a length that says so before.
    assert error(post(hearing, pieces())) == (413, "BODY_TOO_LARGE")
