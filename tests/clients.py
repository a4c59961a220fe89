"""What tests of several folders ask a server, and how they read its answers."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import soundfile
from websockets.sync.client import connect

from tests.processes import PATIENCE, ROOT

RATE = 24_000
# 5.63 seconds of speech in a voice of this server, at 16 kHz: two sentences.
SPOKEN = ROOT / "tests" / "golden" / "spoken.ogg"


def speak(
    url: str, text: str = "Hello.", *, path: str = "/v1/audio/speech", key: str = "", id_: str = "", **fields: object
) -> httpx.Response:
    """Return the answer to a request for speech with these fields; another `path` takes the text as `text`."""
    given = {"authorization": key and f"Bearer {key}", "x-request-id": id_}
    headers = {name: value for name, value in given.items() if value}
    said = "input" if path == "/v1/audio/speech" else "text"
    return httpx.post(url + path, json={said: text, **fields}, headers=headers, timeout=PATIENCE)


def clone(url: str, recording: bytes, key: str = "", **fields: str) -> httpx.Response:
    """Return the answer to the upload of a recording as a voice."""
    data, files = {"name": "Ada", "consent": "true"} | fields, {"audio_sample": ("a", recording)}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.post(f"{url}/v1/audio/voices", data=data, files=files, headers=headers, timeout=PATIENCE)


def samples(reply: httpx.Response) -> np.ndarray:
    """Return the speech of an answer, which must be at 24 kHz: float32 [samples]."""
    assert reply.status_code == 200, reply.text
    if reply.headers["content-type"].startswith("audio/pcm"):
        return np.frombuffer(reply.content, "<i2").astype(np.float32) / 32_768
    pcm, rate = soundfile.read(io.BytesIO(reply.content), dtype="float32")
    assert rate == RATE
    return pcm


def websocket(url: str, path: str = "/v1/audio/stream") -> str:
    """Return the address of a WebSocket of the server `url`."""
    return url.replace("http", "ws", 1) + path


def converse(address: str, *messages: dict[str, Any] | bytes, **options: Any) -> tuple[bytes, list[dict[str, Any]]]:
    """Send messages to a WebSocket, and return the audio and the events that come until the server closes it."""
    audio, events = b"", []
    with connect(address, open_timeout=PATIENCE, max_size=None, **options) as socket:
        for message in messages:
            socket.send(message if isinstance(message, bytes) else json.dumps(message))
        for answer in socket:
            if isinstance(answer, bytes):
                audio += answer
            else:
                events.append(json.loads(answer))
    return audio, events
