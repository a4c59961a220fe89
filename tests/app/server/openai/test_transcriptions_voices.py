"""Transcriptions of speech and of silence: the detection of voices before the recognizer, which hears both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.config import Settings
from tests.app.audio.recordings import tone, written
from tests.app.conftest import Running, ToneCatalog, start, stop

RATE = 16_000
SILENCE = np.zeros(3 * RATE, np.float32)


@pytest.fixture(scope="module")
def detecting() -> Iterator[Running]:
    """A server that detects voices before it recognizes."""
    settings = Settings(recognition_seconds=200.0, max_recording_bytes=10 << 20)
    running = start(settings, ToneCatalog(recognizer="ear"))
    yield running
    stop(running)


@pytest.fixture
def gated(detecting: Running) -> Running:
    detecting.ear.requests.clear()
    detecting.ear.gate.clear()
    return detecting


def post(server: Any, pcm: np.ndarray, **fields: object) -> httpx.Response:
    data = {"response_format": "verbose_json"} | fields
    files = {"file": ("a.wav", written(pcm, RATE))}
    response = httpx.post(server.url + "/v1/audio/transcriptions", data=data, files=files)
    assert response.status_code == 200, response.text
    return response


def test_silence_noise_and_tones_say_nothing_and_speech_does(gated: Any, voice: np.ndarray) -> None:
    noise = (0.1 * np.random.default_rng(0).standard_normal(SILENCE.size)).astype(np.float32)
    for pcm in (SILENCE, noise, tone(3.0, RATE)):
        body = post(gated, pcm).json()
        assert (body["text"], body["segments"], body["language"]) == ("", [], "unknown")
    assert post(gated, SILENCE, response_format="text").text == "\n"
    assert post(gated, SILENCE, response_format="vtt").text == "WEBVTT\n"
    assert post(gated, SILENCE, response_format="json").json()["languages"] == []
    events = post(gated, SILENCE, response_format="json", stream="true").text.split("\n\n")
    assert '"text":""' in events[0]
    assert events[1:] == ["data: [DONE]", ""]
    assert gated.ear.requests == []
    # The whole recording is recognized once anybody speaks in it, however quietly.
    pcm = np.concatenate([SILENCE, 0.003 * voice])
    assert post(gated, pcm).json()["text"].startswith("en second 0.")
    assert [request.pcm.size for request in gated.ear.requests] == [pcm.size]


@pytest.mark.parametrize(
    "strategy",
    [
        {"chunking_strategy": "auto"},
        {"chunking_strategy[type]": "server_vad", "chunking_strategy[silence_duration_ms]": "500"},
        {"chunking_strategy": '{"type": "server_vad", "prefix_padding_ms": 300, "threshold": 0.5}'},
    ],
)
def test_a_recording_is_cut_at_its_pauses(gated: Any, voice: np.ndarray, strategy: dict[str, str]) -> None:
    pause = np.zeros(40 * RATE, np.float32)
    pcm = np.concatenate([SILENCE, voice, pause, voice])
    fields = {"timestamp_granularities[]": ["word", "segment"]} | strategy
    body = post(gated, pcm, **fields).json()
    (request,) = gated.ear.requests
    first, second = ((end - start) / RATE for start, end in request.parts)
    length = voice.size / RATE
    assert first == pytest.approx(length + 0.3, abs=0.35)
    assert second == pytest.approx(length + 0.3, abs=0.35)
    # Times are those of the whole recording.
    begins = [segment["start"] for segment in body["segments"] if "second 0." in segment["text"]]
    assert begins == pytest.approx([2.7, 3 + length + 40 - 0.3], abs=0.2)
    starts = [segment["start"] for segment in body["segments"]]
    assert starts == sorted(starts)
    assert body["words"][-1]["end"] <= body["duration"]
    assert body["segments"][-1]["end"] == body["words"][-1]["end"]


def test_neighbors_are_recognized_together(gated: Any, voice: np.ndarray) -> None:
    said = np.concatenate([voice, SILENCE, voice])
    post(gated, np.concatenate([SILENCE, said, SILENCE]), chunking_strategy="auto")
    (request,) = gated.ear.requests
    ((start, end),) = request.parts
    assert end - start == pytest.approx(said.size, abs=0.7 * RATE)


def test_a_quota_counts_the_seconds_of_recordings(
    start_server: Any, tmp_path: Path, voice: np.ndarray, quota_clock: Any
) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text('[ann]\nkey = "0123456789abcdef0123456789abcdef"\ncharacters_per_minute = 100\n')
    running = start_server(recognizer="ear", keys_file=str(keys))
    url, files = running.url + "/v1/audio/transcriptions", {"file": written(voice, RATE)}
    assert httpx.post(url, files=files).status_code == 401
    headers = {"authorization": "Bearer 0123456789abcdef0123456789abcdef"}
    assert httpx.post(url, files=files, headers=headers).status_code == 200
    refused = httpx.post(url, files=files, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert len(running.ear.requests) == 1
    quota_clock.now += 60.0
    assert httpx.post(url, files=files, headers=headers).status_code == 200


def test_recordings_in_memory_are_bounded_and_short_ones_find_room(gated: Any, voice: np.ndarray) -> None:
    long = np.tile(voice, 25)
    client = httpx.Client(timeout=60)
    held = client.build_request(
        "POST",
        gated.url + "/v1/audio/transcriptions",
        data={"prompt": "gated", "stream": "true"},
        files={"file": written(long, RATE)},
    )
    streams = []
    try:
        for _ in range(2):
            stream = client.send(held, stream=True)
            assert stream.status_code == 200
            streams.append(stream)
        response = httpx.post(gated.url + "/v1/audio/transcriptions", files={"file": written(long, RATE)})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "overloaded")
        assert post(gated, voice).json()["text"].startswith("en second 0.")
    finally:
        gated.ear.gate.set()
        for stream in streams:
            stream.read()
        client.close()
    assert post(gated, long).status_code == 200
