"""Conditioning of a recording over a real socket: made once, given up, kept on disk, there after a restart."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.app.server.cloning import TEXT, VOICES, cloned, error, pitch_of, speak, stored, upload

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


def test_many_requests_wait_for_one_making(running: Any, wait_until: Any) -> None:
    running.parrot.gate.clear()
    voice = cloned(running, 700.0)
    making = running.server.config.app.state.services.speech.voices._making
    with ThreadPoolExecutor(6) as pool:
        speaking = [pool.submit(speak, running, voice) for _ in range(6)]
        # They, and what began with the upload.
        assert wait_until(lambda: [each.waiting for each in list(making.values())] == [6 + 1])
        running.parrot.gate.set()
        replies = [each.result() for each in speaking]
    assert len(running.parrot.heard) == 1
    assert {reply.content for reply in replies} == {replies[0].content}
    assert pitch_of(replies[0].content) == pytest.approx(700, abs=5)
    assert all("condition;dur=" in reply.headers["server-timing"] for reply in replies)


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


def test_a_full_disk_is_said_and_leaves_nothing(running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cloned(running)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in error(upload(running), 507, "storage_full")["message"]
    names = stored(tmp_path)
    assert all(name.startswith(kept) for name in names)
    # A voice that cannot be kept ready is made anew each time, and works.
    (tmp_path / "data" / "voices" / f"{kept}.parrot.safetensors").unlink(missing_ok=True)
    assert speak(running, kept).status_code == 200


# After a restart.


@pytest.mark.slow
def test_voices_survive_a_killed_server(tmp_path: Path, wait_until: Any) -> None:
    """Real processes: the second finds what the first was killed after, and sweeps what it left half-written."""
    conftest = Path(__file__).parents[2] / "conftest.py"
    environment = {key: text for key, text in os.environ.items() if not key.startswith("NIGHTINGALE_")}
    environment |= {"NIGHTINGALE_DATA_DIR": str(tmp_path / "data"), "NIGHTINGALE_PRELOAD": "parrot", "PORT": "0"}

    class Server:
        url = ""

    def run() -> subprocess.Popen[bytes]:
        log = (tmp_path / "log").open("ab")
        with log:
            return subprocess.Popen([sys.executable, str(conftest)], env=environment, stdout=log, stderr=log)

    def until_ready(process: subprocess.Popen[bytes]) -> None:
        def is_ready() -> bool:
            log = (tmp_path / "log").read_text()
            assert process.poll() is None, log
            # Of this process, not of the one before it.
            found = re.search(rf"process \[{process.pid}\].*(http://127\.0\.0\.1:\d+)", log, re.DOTALL)
            if found:
                Server.url = found.group(1)
            return found is not None and httpx.get(Server.url + "/readyz").status_code == 200

        assert wait_until(is_ready, 180), (tmp_path / "log").read_text()

    process = run()
    try:
        until_ready(process)
        voice = cloned(Server, 700.0)
        before = speak(Server, voice).content
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        folder = tmp_path / "data" / "voices"
        half = folder / f"voice_{'a' * 24}.safetensors.00000000.partial"
        half.write_bytes((folder / f"{voice}.safetensors").read_bytes()[:1000])
        process = run()
        until_ready(process)
        assert not half.exists()
        assert half.name in (tmp_path / "log").read_text()
        listed = httpx.get(Server.url + VOICES, params={"kind": "cloned"}).json()["voices"]
        assert [entry["id"] for entry in listed] == [voice]
        assert speak(Server, voice).content == before
    finally:
        process.kill()
        process.wait(60)
