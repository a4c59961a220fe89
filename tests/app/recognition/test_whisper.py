"""Transcriptions by a small Whisper of random weights, which writes anything, but always the same."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import numpy as np
import pytest

from models.contract import RecognitionRequest
from models.timeline import Timeline
from tests.app.audio.recordings import written
from tests.models.whisper.builder import recognizer, sound

RATE = 16_000
SEED = 5
# Such texts look wrong at any temperature: one is tried.
WARM = 0.2


@pytest.fixture(scope="module")
def pcm() -> np.ndarray:
    """Three seconds of sound, of more than one window, as a file of 16 bits has it."""
    return np.round(sound(3).clip(-1, 1) * 32_768).clip(-32_768, 32_767) / np.float32(32_768)


@pytest.fixture(scope="module")
def expected(pcm: np.ndarray) -> list[Any]:
    """Segments of the model itself."""
    request = RecognitionRequest(pcm.astype(np.float32), "en", temperature=WARM, word_times=True)
    found = recognizer(seed=SEED).recognize(request, Timeline(), lambda: False)
    return [segment for segment in found if segment is not None]


@pytest.mark.slow
def test_every_part_agrees_with_the_model_itself(
    start_server: Any, wait_until: Any, pcm: np.ndarray, expected: list[Any]
) -> None:
    running = start_server(recognizer="ear", load_ear=lambda: recognizer(seed=SEED), recognition_gate=False)

    def ask(**fields: object) -> httpx.Response:
        files = {"file": ("a.wav", written(pcm, RATE))}
        data = {"language": "en", "temperature": str(WARM)} | fields
        response = httpx.post(running.url + "/v1/audio/transcriptions", data=data, files=files, timeout=60)
        assert response.status_code == 200, response.text
        return response

    verbose = ask(**{"response_format": "verbose_json", "timestamp_granularities[]": ["word", "segment"]})
    body = verbose.json()
    assert [segment["text"] for segment in body["segments"]] == [segment.text for segment in expected]
    assert [segment["start"] for segment in body["segments"]] == pytest.approx([each.start for each in expected])
    assert [segment["tokens"] for segment in body["segments"]] == [
        [token.id for token in segment.tokens] for segment in expected
    ]
    assert len(body["words"]) == sum(len(segment.words) for segment in expected)
    assert body["language"] == "english"
    stages = re.findall(r"(\w+);", verbose.headers["server-timing"])
    assert {"audio_decode", "mel", "encode", "decode", "align"} <= set(stages)

    # Times of words change where the next window begins: this is another text.
    whole = ask().json()["text"]
    *deltas, done, last = ask(stream="true").text.strip().split("\n\n")
    assert "".join(json.loads(event.removeprefix("data: "))["delta"] for event in deltas) == whole
    assert json.loads(done.removeprefix("data: "))["text"] == whole
    assert last == "data: [DONE]"
    assert ask(response_format="srt").text.startswith("1\n00:00:")
    for fields in ({"language": ""}, {"prompt": "A talk."}, {"chunking_strategy": "auto"}):
        ask(**fields)
    entry = httpx.get(running.url + "/v1/models/whisper-1").json()
    assert (entry["kind"], len(entry["languages"])) == ("speech-recognition", 99)
