"""Recordings, and what clients do with them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import soundfile

VOICES = "/v1/audio/voices"
RATE = 24_000
TEXT = "A sentence of the clone."


def recording(pitch: float = 500.0, seconds: float = 3.0, container: str = "WAV") -> bytes:
    file = io.BytesIO()
    samples = 0.4 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * 16_000)) / 16_000)
    soundfile.write(file, samples.astype(np.float32), 16_000, format=container)
    return file.getvalue()


def upload(server: Any, data: bytes | None = None, field: str = "audio_sample", **fields: str) -> httpx.Response:
    body = {"name": "Ada", "consent": "true"} | fields
    files = {field: ("voice.wav", recording() if data is None else data)}
    return httpx.post(server.url + VOICES, data=body, files=files, timeout=60)


def cloned(server: Any, pitch: float = 500.0, **fields: str) -> str:
    response = upload(server, recording(pitch), **fields)
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


def speak(server: Any, voice: str, **more: object) -> httpx.Response:
    body = {"input": TEXT, "model": "parrot", "voice": voice, "response_format": "pcm"} | more
    return httpx.post(server.url + "/v1/audio/speech", json=body, timeout=60)


def pitch_of(audio: bytes) -> float:
    pcm = np.frombuffer(audio, "<i2").astype(np.float32)
    return float(np.argmax(np.abs(np.fft.rfft(pcm)))) * RATE / pcm.size


def error(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    found = response.json()["error"]
    assert found["code"] == code, found
    return dict(found)


def stored(tmp_path: Path) -> list[str]:
    folder = tmp_path / "data" / "voices"
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock") if folder.is_dir() else []


def nothing_is_stored(server: Any) -> bool:
    return httpx.get(server.url + VOICES, params={"kind": "cloned"}).json()["voices"] == []
