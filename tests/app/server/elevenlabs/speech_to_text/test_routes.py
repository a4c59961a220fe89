"""ElevenLabs' `POST /v1/speech-to-text` over a real socket, with a recognizer that hears seconds."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.app.audio.recordings import tone, written

PATH = "/v1/speech-to-text"
RECORDING = written(tone(2.5, 16_000), 16_000)
TEXT = "en second 0. en second 1. en second 2."


def post(server: Any, recording: bytes = RECORDING, **fields: Any) -> httpx.Response:
    data = {"model_id": "scribe_v1"} | fields
    return httpx.post(server.url + PATH, data=data, files={"file": ("a.wav", recording)})


def error(response: httpx.Response) -> tuple[int, str, str | None]:
    detail = response.json()["detail"]
    assert {"status", "message", "param"} <= set(detail)
    assert len(detail["message"]) < 500
    return response.status_code, detail["status"], detail["param"]


def test_words_and_spaces_join_to_the_text(hearing: Any) -> None:
    response = post(hearing, tag_audio_events="true", no_verbatim="true", something_new="5")
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert (body["language_code"], body["language_probability"], body["text"]) == ("en", 0.75, TEXT)
    assert (body["audio_duration_secs"], body["transcription_id"]) == (2.5, response.headers["x-request-id"])
    assert "".join(word["text"] for word in body["words"]) == TEXT
    assert [word["type"] for word in body["words"]] == ["word", *["spacing", "word"] * 8]
    assert body["words"][0] == {"text": "en", "type": "word", "logprob": -0.1054, "start": 0.0, "end": 0.333}
    assert body["words"][1] == {"text": " ", "type": "spacing", "logprob": 0.0, "start": 0.333, "end": 0.333}
    assert "additional_formats" not in body


def test_times_as_asked_for(hearing: Any) -> None:
    bare = post(hearing, timestamps_granularity="none").json()["words"]
    assert set(bare[0]) == {"text", "type", "logprob"}
    fine = post(hearing, timestamps_granularity="character").json()["words"]
    second = next(word for word in fine if word["text"] == "second")
    assert "".join(each["text"] for each in second["characters"]) == "second"
    assert second["characters"][0]["start"] == second["start"]
    assert second["characters"][-1]["end"] == second["end"]
    assert "characters" not in fine[1]


def test_the_options_reach_the_model(hearing: Any) -> None:
    body = post(hearing, model_id="ear", language_code="fra", keyterms=["Nightingale", "MLX"], temperature="2").json()
    (request,) = hearing.ear.requests
    assert (request.language, request.prompt, request.temperature) == ("fr", "Nightingale, MLX.", 1.0)
    assert request.word_times
    assert (body["language_code"], body["language_probability"]) == ("fr", 1.0)
    # English is detected, and cannot be.
    body = post(hearing, language_code="deu", secondary_language_codes=["fra"]).json()
    assert body["language_code"] == "de"


def test_other_forms(hearing: Any) -> None:
    forms = json.dumps([{"format": "srt", "max_characters_per_line": 30}, {"format": "txt"}])
    srt, txt = post(hearing, additional_formats=forms).json()["additional_formats"]
    assert (srt["requested_format"], srt["file_extension"], srt["is_base64_encoded"]) == ("srt", "srt", False)
    assert srt["content"].startswith("1\n00:00:00,000 --> ")
    assert (txt["content_type"], txt["content"]) == ("text/plain", TEXT)


def test_silence_has_no_words(hearing: Any) -> None:
    hearing.ear.says.append("")
    body = post(hearing).json()
    assert (body["text"], body["words"], body["language_code"]) == ("", [], "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_id", ""), ("diarize", "true"), ("use_multi_channel", "True"), ("webhook", "true"),
        ("source_url", "http://127.0.0.1/"), ("cloud_storage_url", "http://127.0.0.1/"), ("entity_detection", '"all"'),
        ("timestamps_granularity", "line"), ("temperature", "3"), ("temperature", "nan"), ("file_format", "mp3"),
        ("additional_formats", "{"), ("additional_formats", '{"a":' * 9_000), ("keyterms", ["x"] * 1_001),
        ("additional_formats", '[{"format": "pdf"}]'),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(hearing: Any, field: str, value: Any) -> None:
    code = "unsupported_format" if "pdf" in value else "invalid_request"
    assert error(post(hearing, **{field: value})) == (400, code, field)
    assert not hearing.ear.requests


def test_bad_bodies_are_refused(hearing: Any) -> None:
    no_file = httpx.post(hearing.url + PATH, files={"model_id": (None, "scribe_v1")})
    assert error(no_file) == (400, "invalid_request", "file")
    text = httpx.post(hearing.url + PATH, files={"model_id": (None, "scribe_v1"), "file": (None, "text")})
    assert error(text) == (400, "invalid_request", "file")
    assert error(httpx.post(hearing.url + PATH, json={"model_id": "scribe_v1"}))[0] == 400
