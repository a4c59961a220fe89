"""SIGTERM and SIGKILL while the server is busy."""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

from tests.clients import clone
from tests.faults.conftest import Listeners, launch


@pytest.mark.nightly
def test_sigkill_while_voices_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    recording = io.BytesIO()
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 24_000 * 20).astype(np.float32)
    soundfile.write(recording, noise, 24_000, format="WAV")
    kept: list[str] = []

    def upload(url: str, enough: threading.Event) -> None:
        with contextlib.suppress(httpx.TransportError):
            for count in range(200):
                kept.append(clone(url, recording.getvalue()).raise_for_status().json()["id"])
                if count:
                    enough.set()

    for _ in range(2):
        with launch(folder) as server:
            enough = threading.Event()
            uploads = [threading.Thread(target=upload, args=(server.url, enough)) for _ in range(4)]
            for thread in uploads:
                thread.start()
            assert enough.wait(180)
            server.popen.send_signal(signal.SIGKILL)
            server.popen.wait(180)
            for thread in uploads:
                thread.join(180)
    with launch(folder) as server:
        listed = httpx.get(f"{server.url}/v1/audio/voices", params={"kind": "cloned"}).json()["voices"]
        # What was answered is there; what was not is there whole, or not at all.
        assert set(kept) <= {voice["id"] for voice in listed}
        assert {voice["duration"] for voice in listed} == {20.0}
        left = [path.name for path in (server.folder / "data").rglob("*") if path.suffix == ".partial"]
        assert left == []
        assert "damaged" not in server.log.read_text()


@pytest.mark.nightly
def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    with launch(tmp_path / "server") as server:
        heard = Listeners(server).wait()
        # The disk that holds the log is full.
        pid, log = server.popen.pid, server.log
        assert Path(f"/proc/{pid}/fd/1").resolve() == log.resolve()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]))
        size = log.stat().st_size
        assert Listeners(server).wait() == heard
        assert log.stat().st_size == size
        server.popen.send_signal(signal.SIGTERM)
        assert server.popen.wait(180) == 0
