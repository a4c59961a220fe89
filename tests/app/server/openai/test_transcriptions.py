"""`POST /v1/audio/transcriptions` and `/translations` over a real socket, with a recognizer that hears seconds."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from app.server.openai import transcriptions
from tests.app.audio.recordings import tone, written

PATH = "/v1/audio/transcriptions"
TRANSLATIONS = "/v1/audio/translations"
# Two and a half seconds: three segments.
RECORDING = written(tone(2.5, 16_000), 16_000)
TEXT = "en second 0. en second 1. en second 2."


def post(server: Any, path: str = PATH, recording: bytes = RECORDING, **fields: object) -> httpx.Response:
    data = {"model": "whisper-1"} | fields
    return httpx.post(server.url + path, data=data, files={"file": ("a.wav", recording)})


def form(server: Any, parts: list[tuple[str, str]]) -> httpx.Response:
    """Send a form whose names may repeat."""
    files: list[tuple[str, Any]] = [("file", ("a.wav", RECORDING))]
    return httpx.post(server.url + PATH, files=files + [(name, (None, value)) for name, value in parts])


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"] == "text/event-stream"
    *blocks, last = [block for block in response.text.split("\n\n") if block]
    assert last == "data: [DONE]"
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def error(response: httpx.Response) -> tuple[int, str, str | None]:
    body = response.json()["error"]
    assert set(body) == {"message", "type", "param", "code", "request_id"}
    assert len(body["message"]) < 500
    return response.status_code, body["code"], body["param"]


def test_json_is_the_default(hearing: Any) -> None:
    response = post(hearing)
    assert response.headers["content-type"] == "application/json"
    usage: dict[str, Any] = {"type": "tokens", "input_tokens": 25, "output_tokens": 9, "total_tokens": 34}
    usage["input_token_details"] = {"audio_tokens": 25, "text_tokens": 0}
    assert response.json() == {"text": TEXT, "languages": [{"code": "en"}], "usage": usage}
    (request,) = hearing.ear.requests
    assert request.pcm.size == 40_000
    assert (request.language, request.task, request.prompt, request.temperature) == (None, "transcribe", "", None)
    assert not request.word_times
    assert not request.prosody


def test_the_setting_of_marks_by_the_tune_reaches_the_model(start_server: Any) -> None:
    running = start_server(recognizer="ear", recognition_gate=False, recognition_prosody=True)
    assert post(running).json()["text"] == TEXT
    (request,) = running.ear.requests
    assert request.prosody


def test_text_and_subtitles(hearing: Any) -> None:
    assert post(hearing, response_format="text").text == TEXT + "\n"
    srt = post(hearing, response_format="srt")
    assert srt.headers["content-type"].startswith("application/x-subrip")
    assert srt.text.split("\n\n")[1].split("\n") == ["2", "00:00:01,000 --> 00:00:02,000", "en second 1."]
    vtt = post(hearing, response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nen second 0.\n\n")


def test_verbose_json_has_segments_and_words_as_asked_for(hearing: Any) -> None:
    whole = post(hearing, response_format="verbose_json").json()
    heard = {"task": "transcribe", "language": "english", "duration": 2.5, "text": TEXT}
    assert heard.items() <= whole.items()
    assert whole["usage"] == {"type": "duration", "seconds": 3}
    assert "words" not in whole
    figures = {"temperature": 0.0, "avg_logprob": -0.2, "compression_ratio": 1.25, "no_speech_prob": 0.01}
    place = {"id": 2, "seek": 0, "start": 2.0, "end": 2.5}
    assert whole["segments"][2] == {"text": " en second 2.", "tokens": [0, 1, 2], **place, **figures}
    fields = [("response_format", "verbose_json"), ("timestamp_granularities[]", "word")]
    words = form(hearing, fields).json()
    assert "segments" not in words
    assert words["words"][0] == {"word": "en", "start": 0.0, "end": 0.333}
    assert len(words["words"]) == 9
    both = form(hearing, [*fields, ("timestamp_granularities", "segment")]).json()
    assert (len(both["words"]), len(both["segments"])) == (9, 3)
    assert [request.word_times for request in hearing.ear.requests] == [False, True, True]


def test_the_options_reach_the_model(hearing: Any) -> None:
    parts = {"model": "ear", "language": "French", "prompt": " A talk. ", "temperature": "0.4"}
    body = form(hearing, [*parts.items(), ("keywords[]", "Nightingale"), ("keywords", "MLX")]).json()
    (request,) = hearing.ear.requests
    assert (request.language, request.prompt, request.temperature) == ("fr", "Nightingale, MLX. A talk.", 0.4)
    assert body["languages"] == [{"code": "fr"}]
    assert body["usage"]["input_token_details"] == {"audio_tokens": 25, "text_tokens": 4}
    assert body["text"].startswith("fr second 0.")


def test_empty_fields_are_none(hearing: Any) -> None:
    assert post(hearing, language="", prompt="", response_format="", temperature="", model="").json()["text"] == TEXT


def test_a_detected_language_is_one_of_those_that_may_be_spoken(hearing: Any) -> None:
    said = [("prompt", "french")]
    expected = [("languages[]", "de"), ("languages[]", "en")]
    assert form(hearing, [*said, *expected, ("languages[]", "fr")]).json()["languages"] == [{"code": "fr"}]
    assert len(hearing.ear.requests) == 1
    # It cannot be French: it is recognized again, as the first of those that can be.
    body = form(hearing, [*said, *expected]).json()
    assert (body["languages"], body["text"][:12]) == ([{"code": "de"}], "de second 0.")
    assert [request.language for request in hearing.ear.requests] == [None, None, "de"]
    # One alone is the language.
    form(hearing, expected[:1])
    assert hearing.ear.requests[-1].language == "de"


def test_translations_are_english(hearing: Any) -> None:
    body = post(hearing, TRANSLATIONS, prompt="french", response_format="verbose_json").json()
    assert (body["task"], body["language"], body["text"]) == ("translate", "english", TEXT)
    assert hearing.ear.requests[0].task == "translate"
    for response_format in ("json", "text", "srt", "vtt"):
        assert post(hearing, TRANSLATIONS, response_format=response_format).status_code == 200


@pytest.mark.parametrize("path", [PATH, TRANSLATIONS])
def test_unknown_fields_are_named(hearing: Any, path: str) -> None:
    for fields in ({}, {"response_format": "text"}, {"stream": "true"}):
        answer = post(hearing, path, vad_filter="true", hotwords=["a", "b"], **fields)
        named = "parameter vad_filter, parameter hotwords"
        assert (answer.status_code, answer.headers["x-ignored"].removesuffix(", parameter stream")) == (200, named)
        assert TEXT in answer.text or TEXT.rpartition(" en ")[0] in json.loads(answer.text.split("data: ")[-2])["text"]


def test_the_language_auto_is_detected(hearing: Any) -> None:
    assert post(hearing, language="Auto").json()["text"] == TEXT
    assert hearing.ear.requests[0].language is None


def test_events_join_to_the_whole(hearing: Any) -> None:
    *deltas, done = events(post(hearing, stream="true", response_format="text"))
    assert [event["delta"] for event in deltas] == ["en second 0.", " en second 1.", " en second 2."]
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert done["type"] == "transcript.text.done"
    assert done["text"] == TEXT
    assert done["usage"]["type"] == "tokens"
    assert "logprobs" not in done


def test_logprobs_belong_to_the_tokens(hearing: Any) -> None:
    expected = [{"token": " en", "bytes": [32, 101, 110], "logprob": -0.1}]
    assert form(hearing, [("include[]", "logprobs")]).json()["logprobs"][:1] == expected
    first, *_, done = events(form(hearing, [("include", "logprobs"), ("stream", "True")]))
    assert first["logprobs"][:1] == expected
    assert len(first["logprobs"]) == 3
    assert len(done["logprobs"]) == 9


@pytest.mark.parametrize(
    ("parts", "param", "says"),
    [
        ([("prompt", "x" * 20_000)], "prompt", "10000"),
        ([("prompt", "x" * 100_000)], None, "maximum size"),
        ([("keywords[]", "a")] * 300, None, "fields"),
    ],
)
def test_bad_fields_are_named(hearing: Any, parts: list[tuple[str, str]], param: str | None, says: str) -> None:
    response = form(hearing, parts)
    assert response.status_code == 400, response.text
    body = response.json()["error"]
    assert body["param"] == param
    assert says in body["message"]
    assert len(body["message"]) < 500
    assert hearing.ear.requests == []


def test_the_field_of_a_wrong_choice_is_named(hearing: Any) -> None:
    assert error(post(hearing, languages="klingon")) == (400, "unsupported_language", "languages")
    assert error(post(hearing, model="shout")) == (400, "wrong_model_kind", "model")


def test_what_is_no_form_is_refused(hearing: Any) -> None:
    url = hearing.url + PATH
    for response in (
        httpx.post(url),
        httpx.post(url, json={"model": "whisper-1"}),
        httpx.post(url, data={"model": "whisper-1"}),
        httpx.post(url, files={"audio": RECORDING}),
        httpx.post(url, content=b"--x\r\n", headers={"content-type": "multipart/form-data; boundary=x"}),
        httpx.post(url, content=b"abc", headers={"content-type": "multipart/form-data"}),
        httpx.post(url, files=[("file", RECORDING), ("file", RECORDING)]),
    ):
        assert response.status_code == 400, response.text
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_recording_that_is_too_long_or_has_no_sound_is_refused(hearing: Any) -> None:
    long, empty = np.zeros(61 * 8_000, np.float32), np.empty(0, np.float32)
    flac = written(long, 8_000, "FLAC")
    for recording, says in ((flac, "too long: at most 60 seconds"), (written(empty, 16_000), "no audio")):
        response = post(hearing, recording=recording)
        assert error(response) == (400, "unusable_recording", "file")
        assert says in response.json()["error"]["message"]
    assert hearing.ear.requests == []


def test_a_client_that_leaves_in_the_middle_of_its_upload(hearing: Any, wait_until: Any) -> None:
    sent = httpx.Request("POST", hearing.url + PATH, data={"model": "ear"}, files={"file": RECORDING})
    whole = sent.read()
    head = f"POST {PATH} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.headers.items())
    for size in (0, 10, len(whole) // 2):
        with socket.create_connection((sent.url.host, sent.url.port), 60) as client:
            client.sendall(f"{head}\r\n".encode() + whole[:size])
    assert post(hearing).json()["text"] == TEXT
    assert wait_until(lambda: "nightingale_active_streams 0.0" in hearing.metrics())
    assert len(hearing.ear.requests) == 1


def test_a_hundred_at_once_are_served_in_their_own_words(hearing: Any) -> None:
    codes = ["en", "fr", "de", "zh"]
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda number: post(hearing, language=codes[number % 4]), range(100)))
    for number, answer in enumerate(answers):
        assert answer.status_code == 200, answer.text
        assert answer.json()["text"].startswith(f"{codes[number % 4]} second 0.")


def test_stages_and_metrics(hearing: Any, wait_until: Any) -> None:
    def value(name: str) -> float:
        pattern = rf'^nightingale_{name}\{{model="ear",[^}}]*streaming="false",surface="openai"\}} (\S+)$'
        return sum(map(float, re.findall(pattern, hearing.metrics(), re.MULTILINE)))

    seconds, requests = value("recognized_seconds_total"), value("requests_total")
    timing = post(hearing).headers["server-timing"]
    stages = set(dict(re.findall(r"(\w+);dur=([\d.]+)", timing)))
    assert stages == {"queue", "audio_decode", "vad", "mel", "encode", "decode", "total"}
    # The answer is sent before it is recorded.
    assert wait_until(lambda: value("recognized_seconds_total") == seconds + 2.5)
    assert value("requests_total") == requests + 1


def test_a_default_model_that_is_not_installed_is_listed_so(server: Any, start_server: Any) -> None:
    entries = {entry["id"]: entry for entry in httpx.get(server.url + "/v1/models").json()["data"]}
    assert (entries["absent-ear"]["kind"], entries["absent-ear"]["default"]) == ("speech-recognition", True)
    # It is there, but nobody asked for it by name.
    assert entries["ear"]["status"] == "available"
    assert error(post(start_server(recognizer=None))) == (404, "model_not_found", "model")


def test_a_model_asked_for_by_name_is_loaded_and_found_by_openai_s_name(start_server: Any, hearing: Any) -> None:
    running = start_server(recognition_gate=False)
    assert post(running, model="ear").json()["text"] == TEXT
    entry = httpx.get(hearing.url + "/v1/models/whisper-1").json()
    assert (entry["id"], entry["status"], entry["default"], entry["languages"][0]) == ("ear", "ready", True, "en")


def sound(**changes: object) -> dict[str, Any]:
    """A JSON body as Open WebUI sends it."""
    data = base64.b64encode(RECORDING).decode()
    return {"model": "whisper-1", "input_audio": {"data": data, "format": "wav"}} | changes


def test_json_bodies_have_the_recording_within(hearing: Any) -> None:
    assert httpx.post(hearing.url + PATH, json=sound()).json()["text"] == TEXT
    more = sound(language="fr", response_format="verbose_json", timestamp_granularities=["word"], prompt="")
    body = httpx.post(hearing.url + PATH, json=more).json()
    assert (body["language"], len(body["words"]), "segments" in body) == ("french", 9, False)
    streamed = httpx.post(hearing.url + PATH, json=sound(stream=True))
    assert events(streamed)[-1]["text"] == TEXT
    assert httpx.post(hearing.url + TRANSLATIONS, json=sound()).json()["text"] == TEXT


RECORDED = '{"input_audio": {"data": "QUJD"}'
# Bodies, by the parameter that is wrong.
BAD_BODIES: dict[str | None, list[str | bytes]] = {
    None: ["{", "[]", '{"a":' * 5_000, b"\xff\xfe", RECORDED + ', "language": "\\ud800"}'],
    "input_audio": [
        "{}", '{"input_audio": "x"}', '{"input_audio": {"data": 5}}', '{"input_audio": {"data": "not base64!"}}',
        '{"input_audio": {"data": "QUJ"}}', '{"input_audio": {"data": "QUJD", "url": "x"}}',
    ],
    "file": ['{"input_audio": {"data": ""}}', RECORDED + "}", RECORDED + ', "file": "x"}'],
    "temperature": [RECORDED + ', "temperature": 5}'],
}  # fmt: skip


@pytest.mark.parametrize(("body", "param"), [(body, param) for param, all_ in BAD_BODIES.items() for body in all_])
def test_bad_json_bodies_are_refused(hearing: Any, body: Any, param: str | None) -> None:
    response = httpx.post(hearing.url + PATH, content=body, headers={"content-type": "application/json"})
    assert error(response)[0] == 400
    assert error(response)[2] == param
    assert not hearing.ear.requests


def test_padding_is_at_the_end_of_base64(hearing: Any) -> None:
    data = base64.b64encode(bytes((3 << 18) - 2)).decode() + "QUJD"
    response = httpx.post(hearing.url + PATH, json=sound(input_audio={"data": data}))
    assert error(response) == (400, "invalid_request", "input_audio")


def test_comments_come_while_a_segment_is_computed(hearing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.exchange.COMMENT_SECONDS", 0.05)
    with httpx.stream(
        "POST", hearing.url + PATH, data={"stream": "true", "prompt": "gated"}, files={"file": ("a.wav", RECORDING)}
    ) as response:
        lines = response.iter_lines()
        found = [next(lines) for _ in range(8)]
        assert sum(line.startswith("data: ") for line in found) == 1
        assert found.count(": ") == 3
        hearing.ear.gate.set()
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_recordings_in_json_are_read_one_after_the_other(hearing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, alone = transcriptions.read_json_fields, threading.Lock()

    def read(*args: Any) -> Any:
        assert alone.acquire(blocking=False)
        time.sleep(0.05)
        alone.release()
        return reads(*args)

    monkeypatch.setattr(transcriptions, "read_json_fields", read)
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda _: httpx.post(hearing.url + PATH, json=sound(), timeout=60), range(4))
        assert [answer.status_code for answer in answers] == [200] * 4
