"""Conditioning of a recording over a real socket: made once, given up, kept on disk, there after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.app.server.cloning import TEXT, cloned, pitch_of, speak, stored

MEMORY = 'nightingale_voice_conditionings_total{source="memory"}'
DISK = 'nightingale_voice_conditionings_total{source="disk"}'


def test_a_voice_is_made_ready_after_its_upload_and_once(running: Any, wait_until: Any, tmp_path: Path) -> None:
    voice = cloned(running)
    assert wait_until(lambda: f"{voice}.parrot.safetensors" in stored(tmp_path))
    # It is kept in memory after it is kept on the disk; then nothing is waited for.
    assert wait_until(lambda: "condition" not in speak(running, voice).headers["server-timing"])
    before = running.count(MEMORY)
    assert "condition" not in speak(running, voice).headers["server-timing"]
    assert running.count(MEMORY) == before + 1
    assert len(running.parrot.heard) == 1


def test_another_model_is_served_while_a_voice_is_made(running: Any) -> None:
    running.parrot.gate.clear()
    cloned(running)
    assert speak(running, "steady", model="tone").status_code == 200


@pytest.mark.parametrize("surface", ["http", "websocket"])
def test_a_client_that_goes_gives_up_the_making(
    start_server: Any, tmp_path: Path, wait_until: Any, leave: Any, surface: str
) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), voice_cache_bytes=0)
    voice = cloned(running)  # the model is not loaded: nothing is made yet
    assert wait_until(lambda: speak(running, "own").status_code == 200)
    running.parrot.gate.clear()
    if surface == "http":
        body = {"input": TEXT, "model": "parrot", "voice": voice}
        leave(running.url + "/v1/audio/speech", body, lambda: running.parrot.heard)
    else:
        with connect(running.websocket_url) as ws:
            ws.send(json.dumps({"type": "start", "model": "parrot", "voice": voice}))
            assert wait_until(lambda: running.parrot.heard)
    assert wait_until(lambda: running.parrot.given_up == 1)
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    running.parrot.gate.set()
    assert speak(running, voice).status_code == 200


def test_what_does_not_fit_in_memory_comes_from_disk(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), voice_cache_bytes=0)
    voice = cloned(running, 700.0)
    speak(running, voice)
    before = running.count(DISK)
    assert pitch_of(speak(running, voice).content) == pytest.approx(700, abs=5)
    assert running.count(DISK) == before + 1
    assert "nightingale_voice_cache_bytes 0.0" in running.metrics()


def test_what_another_release_made_is_made_again(
    running: Any, wait_until: Any, tmp_path: Path, start_server: Any
) -> None:
    voice = cloned(running)
    assert wait_until(lambda: len(stored(tmp_path)) == 2)
    new = type(running.parrot)(array="pitch2")
    other = start_server(parrot=new, data_dir=str(tmp_path / "data"), preload=("parrot",))
    assert speak(other, voice).status_code == 200
    assert len(new.heard) == 1
