"""Dialogues whose client leaves, that fail midway, and whose speaker is deleted."""

import io
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import soundfile

from tests.app.conftest import WaitUntil

DIALOGUE = "/v1/audio/dialogue"


def lines(*spoken: tuple[str, str]) -> dict[str, Any]:
    return {"inputs": [{"text": text, "voice": voice} for voice, text in spoken], "response_format": "pcm"}


def test_work_for_a_client_who_left_is_dropped(server: Any, wait_until: WaitUntil) -> None:
    body = json.dumps(lines(("steady", "One."), ("gated", "Two."), ("steady", "Three."))).encode()
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port)) as client:
        head = f"POST {DIALOGUE} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
        client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        assert client.recv(1_000).startswith(b"HTTP/1.1 200")
        assert wait_until(lambda: "Two." in server.tone.begun)
    assert wait_until(lambda: "nightingale_active_streams 0.0" in server.metrics())
    assert "Two." not in server.tone.computed


def test_a_speaker_that_fails_midway_breaks_the_answer(server: Any) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(server.url + DIALOGUE, json=lines(("steady", "One."), ("broken", "Two.")), timeout=60)


def test_a_first_speaker_that_fails_is_an_error(server: Any) -> None:
    reply = httpx.post(server.url + DIALOGUE, json=lines(("broken", "One."), ("steady", "Two.")), timeout=60)
    assert reply.status_code == 500
    assert "error" in reply.json()


def test_events_of_a_dialogue_tell_its_failure(server: Any) -> None:
    body = lines(("steady", "One."), ("broken", "Two.")) | {"stream_format": "sse"}
    events: list[str] = []
    with (
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", server.url + DIALOGUE, json=body, timeout=60) as reply,
    ):
        events += (json.loads(each[6:])["type"] for each in reply.iter_lines() if each)
    assert events == ["speech.audio.delta", "error"]


def recording(pitch: float) -> bytes:
    wave = 0.5 * np.sin(2 * np.pi * pitch * np.arange(3 * 16_000) / 16_000)
    file = io.BytesIO()
    soundfile.write(file, wave, 16_000, format="WAV")
    return file.getvalue()


def test_a_cloned_voice_speaks_beside_a_model_s_own(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), recognition_gate=False)
    upload = httpx.post(
        running.url + "/v1/audio/voices",
        files={"audio_sample": ("a.wav", recording(700.0))},
        data={"name": "a", "consent": "true"},
        timeout=60,
    )
    cloned = upload.json()["id"]
    body = lines(("own", "Hello there."), (f"parrot/{cloned}", "Good day."), (cloned, "Yes."))
    reply = httpx.post(running.url + DIALOGUE, json=body | {"model": "parrot"}, timeout=60)
    assert reply.status_code == 200, reply.text
    pitches = [None if each.conditioning is None else 1 for each in running.parrot.requests]
    assert pitches == [None, 1, 1]
    # A model that clones nobody cannot speak in it, and the line is named.
    refused = httpx.post(running.url + DIALOGUE, json=lines(("steady", "One."), (cloned, "Two.")), timeout=60)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "inputs[1].voice")
    # By chance the same mark stands in a text: it is read.
    marked = httpx.post(
        running.url + "/v1/audio/speech", json={"input": f"One. [voice:{cloned}] Two.", "voice": "steady"}, timeout=60
    )
    assert marked.headers["x-ignored"] == f"voice {cloned}"
