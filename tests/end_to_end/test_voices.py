"""Cloned voices and the memory of models, in a real server process with real models."""

from __future__ import annotations

import re
from pathlib import Path

import httpx


def test_a_voice_comes_and_goes_beside_models_that_cannot_use_it(house_server: str) -> None:
    spoken = httpx.post(
        f"{house_server}/v1/audio/speech",
        json={"input": "This is a recording of the house voice, some seconds long, for a clone.", "model": "house"},
        timeout=60,
    )
    assert spoken.headers["x-watermark"] == "none"
    voice = httpx.post(
        f"{house_server}/v1/audio/voices",
        data={"name": "House", "consent": "true", "language": "en-us"},
        files={"audio_sample": ("house.wav", spoken.content, "audio/wav")},
        timeout=60,
    ).raise_for_status()
    assert voice.json()["duration"] > 2
    path = f"{house_server}/v1/audio/voices/{voice.json()['id']}"
    refused = httpx.post(
        f"{house_server}/v1/audio/speech",
        json={"input": "Hello.", "model": "house", "voice": voice.json()["id"]},
        timeout=60,
    )
    assert refused.status_code == 400
    assert "models that can: chatterbox, chatterbox-turbo" in refused.json()["error"]["message"]
    absent = httpx.post(
        f"{house_server}/v1/audio/speech", json={"input": "Hello.", "model": "chatterbox", "voice": voice.json()["id"]}
    )
    assert absent.status_code == 503
    assert "nightingale models pull chatterbox" in absent.json()["error"]["message"]
    assert httpx.delete(path).json()["deleted"]
    assert httpx.get(path).status_code == 404


def test_models_that_are_loaded_say_how_much_they_hold(house_server: str) -> None:
    entries = {entry["id"]: entry for entry in httpx.get(f"{house_server}/v1/models").json()["data"]}
    weights = Path(__file__).parents[2] / "models" / "house" / "model.safetensors"
    held = entries["house"]["memory_bytes"]
    assert weights.stat().st_size * 0.5 < held < weights.stat().st_size * 4
    assert entries["phrasebook"]["memory_bytes"] > 0
    assert entries["house"]["preloaded"] and entries["phrasebook"]["preloaded"]
    assert not entries["chatterbox"]["preloaded"]
    assert entries["chatterbox"]["memory_bytes"] is None
    metrics = httpx.get(f"{house_server}/metrics").text
    (shown,) = re.findall(r'nightingale_model_memory_bytes\{model="house"\} (\S+)', metrics)
    assert float(shown) == held
