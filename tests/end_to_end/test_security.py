"""Known faults of other servers of this kind, tried on a process of this one: a test for each.

Decompression bombs, addresses as references, names as paths, server paths, models on demand, keys, browsers, sockets,
pickles, public addresses.
"""

from __future__ import annotations

import hmac
import io
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.server.middleware import key_file
from models.contract import WeightsError
from models.kokoro.voices import load_voices

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "app" / "conftest.py"
KEY = "key-0123456789-0123456789"
BEARER = {"authorization": f"Bearer {KEY}"}
VOICES = "/v1/audio/voices"


@dataclass
class Process:
    """A server of its own, which wants KEY, and its files."""

    url: str
    folder: Path
    popen: subprocess.Popen[str]

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/v1/audio/stream"


@contextmanager
def process(folder: Path, **environ: str) -> Iterator[Process]:
    log = folder / "log"
    with log.open("w") as output:
        popen = subprocess.Popen(
            [sys.executable, str(MODELS)],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "PORT": "0", "PYTHONPATH": str(ROOT), **environ},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and popen.poll() is None:
            found = re.search(r"running on http://[\d.]+:(\d+)", log.read_text())
            if found:
                url = f"http://127.0.0.1:{found.group(1)}"
                if httpx.get(url + "/readyz").status_code == 200:
                    break
            time.sleep(0.02)
        else:
            pytest.fail(log.read_text())
        yield Process(url, folder, popen)
        popen.send_signal(signal.SIGTERM)
        assert popen.wait(60) == 0
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("security")
    keys = folder / "keys.toml"
    keys.write_text(f'tests = "{KEY}"')
    with process(
        folder,
        NIGHTINGALE_KEYS_FILE=str(keys),
        NIGHTINGALE_DATA_DIR=str(folder / "data"),
        NIGHTINGALE_PRELOAD="parrot",
        NIGHTINGALE_VOICE_SECONDS="5",
        NIGHTINGALE_MAX_FRAME_BYTES="2048",
        NIGHTINGALE_MESSAGES_PER_SECOND="20",
        NIGHTINGALE_IDLE_SECONDS="2.5",
        NIGHTINGALE_SESSION_SECONDS="5",
        NIGHTINGALE_CORS_ORIGINS="https://good.example",
    ) as running:
        yield running


def upload(server: Process, data: bytes, **fields: str) -> httpx.Response:
    body = {"name": "Ada", "consent": "true"} | fields
    return httpx.post(server.url + VOICES, data=body, files={"audio_sample": ("a", data)}, headers=BEARER, timeout=180)


def speak(server: Process, **body: object) -> httpx.Response:
    body = {"input": "Hi.", "response_format": "pcm"} | body
    headers = BEARER | {"prefer": "wait"}
    return httpx.post(server.url + "/v1/audio/speech", json=body, headers=headers, timeout=180)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def cloned(server: Process) -> list[str]:
    found = httpx.get(server.url + VOICES, params={"kind": "cloned"}, headers=BEARER).json()["voices"]
    return [voice["id"] for voice in found]


def peak_memory(server: Process) -> int:
    """Most bytes that the process ever had in memory; 0 where the system does not say."""
    status = Path(f"/proc/{server.popen.pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found.group(1)) << 10 if found else 0


def test_a_recording_that_unpacks_to_hours(server: Process) -> None:
    samples = np.zeros(8_000 * 6 * 3600, np.int16)
    samples[:40_000] = 8_000 * np.sin(np.arange(40_000) / 3)
    file = io.BytesIO()
    soundfile.write(file, samples, 8_000, format="FLAC")
    assert len(file.getvalue()) < samples.nbytes / 200
    before = peak_memory(server)
    stored = upload(server, file.getvalue())
    assert stored.status_code == 200, stored.text
    assert stored.json()["duration"] == pytest.approx(5.0)
    # Unpacked it is 345 MB, as float twice that.
    assert peak_memory(server) - before < 100 << 20
    httpx.delete(f"{server.url}{VOICES}/{stored.json()['id']}", headers=BEARER).raise_for_status()


def test_no_address_is_fetched(server: Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.wav"
        body = {"name": "Ada", "consent": "true", "audio_sample": url}
        for sent in ({"data": body}, {"files": {key: (None, value) for key, value in body.items()}}):
            refused = httpx.post(server.url + VOICES, headers=BEARER, **sent)  # type: ignore[arg-type]
            assert refused.status_code == 400
        assert upload(server, url.encode() * 50).status_code == 400
        for voice in (url, {"id": url}):
            assert speak(server, voice=voice, model="parrot").status_code == 400
        assert speak(server, model=url).status_code == 404
        with pytest.raises(TimeoutError):
            listener.accept()
    assert cloned(server) == []


def test_names_never_become_paths(server: Process) -> None:
    outside = server.folder / "data" / "secret.safetensors"
    outside.parent.mkdir(exist_ok=True)
    outside.write_bytes(b"secret")
    names = ["../secret", "../../keys.toml", "voice_../../secret", "/etc/passwd", "voice_" + "0" * 24 + "/../../secret"]
    with httpx.Client(base_url=server.url, headers=BEARER) as client:
        for name in names:
            for quoted in (name.replace("/", "%2F"), name.replace("/", "%2f").replace(".", "%2e"), name):
                for method in ("GET", "DELETE"):
                    answer = client.request(method, f"{VOICES}/{quoted}")
                    assert answer.status_code in (404, 405), (method, quoted)
                    assert b"secret\n" not in answer.content and KEY.encode() not in answer.content
            assert code(speak(server, voice=name, model="parrot")) == (400, "unknown_voice")
            assert code(speak(server, model=name)) == (404, "model_not_found")
        # Written by hand: a client's library would tidy the path up.
        for target in ("/web/../config.py", "/web/..%2fconfig.py", "/web/%2e%2e/config.py", "/web//etc/passwd"):
            with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=180) as raw:
                raw.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                status = raw.makefile("rb").readline()
            assert b" 404 " in status or b" 401 " in status, (target, status)
    assert outside.read_bytes() == b"secret"
    assert (server.folder / "keys.toml").exists()


def test_a_path_of_the_server_is_no_reference(server: Process) -> None:
    own = server.folder / "own.wav"
    soundfile.write(own, 0.4 * np.sin(np.arange(48_000, dtype=np.float32) / 5), 16_000)
    for reference in (str(own), f"file://{own}"):
        for field in ("audio_sample", "audio", "file"):
            body = {"name": "Ada", "consent": "true", field: reference}
            refused = httpx.post(server.url + VOICES, headers=BEARER, files={k: (None, v) for k, v in body.items()})
            assert code(refused) == (400, "unusable_recording")
        assert code(speak(server, voice=reference, model="parrot")) == (400, "unknown_voice")
    unknown = httpx.post(server.url + VOICES, headers=BEARER, files={"name": (None, "Ada"), "path": (None, str(own))})
    assert unknown.status_code == 400
    assert cloned(server) == []


def test_strangers_load_no_model_and_nobody_loads_another(server: Process) -> None:
    def status() -> str:
        listed = httpx.get(server.url + "/v1/models", headers=BEARER).json()["data"]
        return str(next(model["status"] for model in listed if model["id"] == "tone-two"))

    body = {"input": "Hi.", "model": "tone-two"}
    for headers in ({}, {"authorization": "Bearer wrong"}):
        assert httpx.post(server.url + "/v1/audio/speech", json=body, headers=headers).status_code == 401
        assert httpx.get(server.url + VOICES, params={"model": "tone-two"}, headers=headers).status_code == 401
    assert status() == "available"
    for name in ("someone/model", "hf://someone/model", "/models/x", "tone-two/../x"):
        assert code(speak(server, model=name)) == (404, "model_not_found")
    # The catalog's own may be asked for with a key.
    assert speak(server, model="tone-two").status_code == 200


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = key_file.parse_keys(f'a = "{KEY}"\nb = "{KEY[::-1]}"')
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, two: compared.append(1) or real(one, two))
    for key in (KEY, KEY[::-1], KEY[:-1], "x"):
        keys.find(key)
    assert len(compared) == 8


def test_a_wrong_key_gets_401(server: Process) -> None:
    for key in ("", KEY[:-1], KEY + "x", KEY.upper(), KEY.encode().hex()):
        refused = httpx.get(server.url + "/v1/models", headers={"xi-api-key": key})
        assert code(refused) == (401, "invalid_api_key")
    assert KEY not in (server.folder / "log").read_text()


def test_browsers_send_no_credentials_of_other_pages(server: Process) -> None:
    for origin in ("https://good.example", "https://evil.example"):
        ask = {"origin": origin, "access-control-request-method": "POST", "cookie": "a=b"}
        asked = httpx.options(server.url + "/v1/audio/speech", headers=ask)
        got = httpx.get(server.url + "/v1/models", headers=BEARER | {"origin": origin, "cookie": "a=b"})
        for answer in (asked, got):
            assert "access-control-allow-credentials" not in answer.headers
            assert answer.headers.get("access-control-allow-origin") in (
                {"https://good.example"} if "good" in origin else {None}
            )


@contextmanager
def session(server: Process, **options: Any) -> Iterator[ClientConnection]:
    with connect(server.socket_url, additional_headers=BEARER, **options) as opened:
        opened.send(json.dumps({"type": "start"}))
        assert json.loads(opened.recv(timeout=180))["type"] == "ready"
        yield opened


def closed(opened: ClientConnection) -> tuple[int | None, str]:
    with pytest.raises(ConnectionClosed):
        while True:
            opened.recv(timeout=180)
    return opened.close_code, opened.close_reason or ""


def test_sockets_want_a_key_at_the_handshake_and_no_foreign_page(server: Process) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus, match="401"), connect(server.socket_url, additional_headers=headers):
            pass
    for origin in ("https://evil.example", "null"):
        with pytest.raises(InvalidStatus, match="403"), session(server, origin=origin):
            pass
    for origin in ("https://good.example", server.url, None):
        with session(server, origin=origin):
            pass


def test_messages_have_a_greatest_size(server: Process) -> None:
    with session(server) as opened:
        opened.send(json.dumps({"type": "text", "text": "x" * 3_000}))
        assert closed(opened)[0] == 1009
    with session(server) as opened:
        # So large that it is not even read.
        opened.send(json.dumps({"type": "text", "text": "x" * 3_000_000}))
        assert closed(opened)[0] == 1009


def test_messages_have_a_greatest_rate(server: Process) -> None:
    with session(server) as opened:
        try:
            for _ in range(1_000):
                opened.send(json.dumps({"type": "text", "text": "a"}))
        except ConnectionClosed:
            pass
        status, reason = closed(opened)
        assert status == 1008
        assert "20 messages a second" in reason


def test_silence_ends_a_socket(server: Process) -> None:
    begin = time.monotonic()
    with session(server) as opened:
        status, reason = closed(opened)
        assert status == 1008
        assert "Nothing was received" in reason
        assert time.monotonic() - begin > 2.4


def test_a_session_has_an_end(server: Process) -> None:
    begin = time.monotonic()
    with session(server) as opened:
        with pytest.raises(ConnectionClosed):
            while time.monotonic() < begin + 60:
                opened.send(json.dumps({"type": "text", "text": "a"}))
                time.sleep(0.3)
        assert closed(opened)[0] == 1008
        assert "5 seconds" in (opened.close_reason or "")
        assert time.monotonic() - begin > 4.9


class _Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(server: Process, tmp_path: Path) -> None:
    touched = server.folder / "touched"
    data = pickle.dumps(_Touch(touched))
    # It would work.
    pickle.loads(data.replace(str(touched).encode(), str(touched).encode()))  # noqa: S301
    touched.rmdir()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("archive/data.pkl", data)
        packed.writestr("archive/version", "3\n")
    for evil in (data, archive.getvalue()):
        assert code(upload(server, evil)) == (400, "unusable_recording")
        # A model's voices, and what lies in the folder of cloned ones.
        for suffix in (".pt", ".safetensors"):
            pack = tmp_path / f"evil{suffix}"
            pack.write_bytes(evil)
            with pytest.raises(WeightsError):
                load_voices(tmp_path, 4)
            pack.unlink()
        voice = "voice_" + "0" * 24
        folder = server.folder / "data" / "voices"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{voice}.safetensors").write_bytes(evil)
        assert speak(server, voice=voice, model="parrot").status_code in (400, 404)
        assert voice not in cloned(server)
        (folder / f"{voice}.safetensors").unlink()
    assert not touched.exists()


def test_a_public_address_without_keys_is_refused(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PORT": "0"}
    refused = subprocess.run(
        [sys.executable, "-m", "app.cli", "serve", "--host", "0.0.0.0"],  # noqa: S104
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert "keys_file" in refused.stderr and "allow_public" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    with process(tmp_path, HOST="0.0.0.0", NIGHTINGALE_ALLOW_PUBLIC="true") as server:  # noqa: S104
        assert httpx.get(server.url + "/v1/models").status_code == 200
