"""SIGTERM and SIGKILL while the server is busy."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

LONG = "In spring the old apple tree is full of flowers. The cat sleeps on the wall. " * 6


class Crowd:
    """Clients on both surfaces, each waiting for a long text; `speaking` once all of them have audio."""

    def __init__(self, server: Any, count: int) -> None:
        self.audio: dict[int, bytes] = {}
        self.closed: dict[int, int | None] = {}
        self._server = server
        self._begun = threading.Barrier(count + 1)
        self._threads = [threading.Thread(target=self._listen, args=(number,), daemon=True) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _listen(self, number: int) -> None:
        audio = bytearray()
        with connect(self._server.socket_url, compression=None, open_timeout=60, max_size=None) as socket:
            socket.send(json.dumps({"type": "start", "seed": number}))
            socket.send(json.dumps({"type": "text", "text": LONG}))
            socket.send(json.dumps({"type": "flush"}))
            try:
                while True:
                    message = socket.recv(120)
                    if isinstance(message, bytes):
                        if not audio:
                            self._begun.wait(120)
                        audio += message
            except ConnectionClosed as error:
                self.closed[number] = None if error.rcvd is None else error.rcvd.code
        self.audio[number] = bytes(audio)

    def speaking(self) -> None:
        self._begun.wait(120)

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(180)


def whole(server: Any, seed: int) -> bytes:
    body = {"input": LONG, "response_format": "pcm", "seed": seed}
    return httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=120).raise_for_status().content


@pytest.mark.nightly
def test_sigterm_and_sigkill_under_load(run_server: Any, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with run_server(folder) as server:
        expected = {number: whole(server, number) for number in range(3)}
        crowd = Crowd(server, 3)
        crowd.speaking()
        server.popen.send_signal(signal.SIGKILL)
        server.popen.wait(180)
        crowd.wait()
        # Each has the beginning of what it was to hear, and knows that it is not all.
        assert crowd.closed == dict.fromkeys(range(3))
        for number, audio in crowd.audio.items():
            assert expected[number].startswith(audio)
            assert 0 < len(audio) < len(expected[number])
        port = server.address[1]
    # The same port and the same folder, at once.
    with run_server(folder, port, NIGHTINGALE_DRAIN_SECONDS="60") as server:
        crowd = Crowd(server, 3)
        crowd.speaking()
        server.popen.send_signal(signal.SIGTERM)
        # New ones are told to go elsewhere, while those in flight hear the end of theirs.
        refused = []
        while server.popen.poll() is None and len(refused) < 5:
            try:
                reply = httpx.post(f"{server.url}/v1/audio/speech", json={"input": "Hello."}, timeout=180)
            except httpx.TransportError:
                break
            if reply.status_code == 503:
                refused.append(reply.json()["error"]["code"])
        assert refused == ["draining"] * 5
        crowd.wait()
        assert server.popen.wait(180) == 0, server.log.read_text()
        assert crowd.closed == dict.fromkeys(range(3), 1012)
        assert crowd.audio == expected
        assert "Traceback" not in server.log.read_text()


@pytest.mark.nightly
def test_sigkill_while_voices_are_written(run_server: Any, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    recording = io.BytesIO()
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 24_000 * 20).astype(np.float32)
    soundfile.write(recording, noise, 24_000, format="WAV")
    kept: list[str] = []

    def upload(url: str, enough: threading.Event) -> None:
        files, fields = {"audio_sample": ("a.wav", recording.getvalue())}, {"name": "Ada", "consent": "true"}
        with contextlib.suppress(httpx.TransportError), httpx.Client(timeout=180) as client:
            for count in range(200):
                reply = client.post(f"{url}/v1/audio/voices", data=fields, files=files)
                kept.append(reply.raise_for_status().json()["id"])
                if count:
                    enough.set()

    for _ in range(2):
        with run_server(folder) as server:
            enough = threading.Event()
            uploads = [threading.Thread(target=upload, args=(server.url, enough)) for _ in range(4)]
            for thread in uploads:
                thread.start()
            assert enough.wait(180)
            server.popen.send_signal(signal.SIGKILL)
            server.popen.wait(180)
            for thread in uploads:
                thread.join(180)
    with run_server(folder) as server:
        listed = httpx.get(f"{server.url}/v1/audio/voices", params={"kind": "cloned"}).json()["voices"]
        # What was answered is there; what was not is there whole, or not at all.
        assert set(kept) <= {voice["id"] for voice in listed}
        assert {voice["duration"] for voice in listed} == {20.0}
        left = [path.name for path in (server.folder / "data").rglob("*") if path.suffix == ".partial"]
        assert left == []
        assert "damaged" not in server.log.read_text()


@pytest.mark.nightly
def test_a_log_that_cannot_be_written_stops_nobody(run_server: Any, tmp_path: Path, listen: Any) -> None:
    with run_server(tmp_path / "server") as server:
        heard = listen(server).wait()
        # The disk that holds the log is full.
        pid, log = server.popen.pid, server.log
        assert Path(f"/proc/{pid}/fd/1").resolve() == log.resolve()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]))
        size = log.stat().st_size
        assert listen(server).wait() == heard
        assert log.stat().st_size == size
        server.popen.send_signal(signal.SIGTERM)
        assert server.popen.wait(180) == 0
