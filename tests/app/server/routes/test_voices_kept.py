"""Conditioning of a recording over a real socket: made once, given up, kept on disk, there after a restart."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.app.server.cloning import TEXT, VOICES, cloned, error, pitch_of, speak, stored, upload


def counted(server: Any, source: str) -> float:
    found = re.search(rf'nightingale_voice_conditionings_total{{source="{source}"}} ([\d.]+)', server.metrics())
    return float(found.group(1)) if found else 0.0


def test_a_voice_is_made_ready_after_its_upload_and_once(running: Any, wait_until: Any, tmp_path: Path) -> None:
    before = counted(running, "memory")
    voice = cloned(running)
    assert wait_until(lambda: f"{voice}.parrot.safetensors" in stored(tmp_path))
    timing = speak(running, voice).headers["server-timing"]
    speak(running, voice)
    assert len(running.parrot.heard) == 1
    assert counted(running, "memory") == before + 2
    assert "condition" not in timing  # nothing was waited for


def test_many_requests_wait_for_one_making(running: Any, wait_until: Any) -> None:
    running.parrot.gate.clear()
    voice = cloned(running, 700.0)
    with ThreadPoolExecutor(6) as pool:
        speaking = [pool.submit(speak, running, voice) for _ in range(6)]
        assert wait_until(lambda: "nightingale_active_streams 6.0" in running.metrics())
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


def test_a_client_that_goes_gives_up_the_making(start_server: Any, tmp_path: Path, wait_until: Any) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), voice_cache_bytes=0)
    voice = cloned(running)  # the model is not loaded: nothing is made yet
    assert wait_until(lambda: speak(running, "own").status_code == 200)
    running.parrot.gate.clear()
    for leave in ("http", "websocket"):
        before = running.parrot.given_up
        heard = len(running.parrot.heard)
        if leave == "http":
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(
                    running.url + "/v1/audio/speech",
                    json={"input": TEXT, "model": "parrot", "voice": voice},
                    timeout=0.5,
                )
        else:
            with connect(running.websocket_url) as ws:
                ws.send(json.dumps({"type": "start", "model": "parrot", "voice": voice}))
                assert wait_until(lambda heard=heard: len(running.parrot.heard) > heard)
        assert wait_until(lambda before=before: running.parrot.given_up == before + 1), leave
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    running.parrot.gate.set()
    assert speak(running, voice).status_code == 200


def test_what_does_not_fit_in_memory_comes_from_disk(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), voice_cache_bytes=0)
    voice = cloned(running, 700.0)
    speak(running, voice)
    before = counted(running, "disk")
    assert pitch_of(speak(running, voice).content) == pytest.approx(700, abs=5)
    assert counted(running, "disk") == before + 1
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


def test_voices_survive_a_killed_server(tmp_path: Path) -> None:
    """Real processes: the second finds what the first was killed after, and sweeps what it left half-written."""
    conftest = Path(__file__).parents[2] / "conftest.py"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {key: text for key, text in os.environ.items() if not key.startswith("NIGHTINGALE_")}
    environment |= {"NIGHTINGALE_DATA_DIR": str(tmp_path / "data"), "NIGHTINGALE_PRELOAD": "parrot", "PORT": str(port)}

    class Server:
        url = f"http://127.0.0.1:{port}"

    def run() -> subprocess.Popen[bytes]:
        log = (tmp_path / "log").open("ab")
        with log:
            return subprocess.Popen([sys.executable, str(conftest)], env=environment, stdout=log, stderr=log)

    def until_ready(process: subprocess.Popen[bytes]) -> None:
        ready = threading.Event()
        for _ in range(600):
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                if httpx.get(Server.url + "/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            ready.wait(0.05)
        pytest.fail((tmp_path / "log").read_text())

    process = run()
    try:
        until_ready(process)
        voice = cloned(Server, 700.0)
        before = speak(Server, voice).content
        process.send_signal(signal.SIGKILL)
        process.wait(20)
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
        process.wait(20)
