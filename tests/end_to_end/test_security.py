"""Known faults of other servers of this kind, tried on a process of this one: a test for each.

Decompression bombs, addresses as references, names as paths, server paths, models on demand, pickles. Keys, browsers
and the limits of sockets are tested with the middleware.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from models.contract import WeightsError
from models.kokoro.voices import load_voices
from tests.clients import clone
from tests.processes import Process, serve_stand_ins
from tests.wire import Wire

KEY = "key-0123456789-0123456789"
BEARER = {"authorization": f"Bearer {KEY}"}
VOICES = "/v1/audio/voices"
# A name with a slash may name a model.
NO_VOICE = ((400, "unknown_voice"), (404, "model_not_found"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that wants KEY, and does not write it into its log."""
    folder = tmp_path_factory.mktemp("security")
    keys = folder / "keys.toml"
    keys.write_text(f'tests = "{KEY}"')
    settings = {"KEYS_FILE": str(keys), "PRELOAD": "parrot", "VOICE_SECONDS": "5"}
    with serve_stand_ins(folder, **{f"NIGHTINGALE_{name}": value for name, value in settings.items()}) as process:
        yield process
        assert KEY not in process.log.read_text()


def upload(server: Process, data: bytes) -> httpx.Response:
    return clone(server.url, data, KEY)


def speak(server: Process, **body: object) -> httpx.Response:
    body = {"input": "Hi.", "response_format": "pcm"} | body
    headers = BEARER | {"prefer": "wait"}
    return httpx.post(server.url + "/v1/audio/speech", json=body, headers=headers, timeout=180)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def cloned(server: Process) -> list[str]:
    found = httpx.get(server.url + VOICES, params={"kind": "cloned"}, headers=BEARER).json()["voices"]
    return [voice["id"] for voice in found]


def test_a_recording_that_unpacks_to_hours(server: Process) -> None:
    samples = np.zeros(8_000 * 6 * 3600, np.int16)
    samples[:40_000] = 8_000 * np.sin(np.arange(40_000) / 3)
    file = io.BytesIO()
    soundfile.write(file, samples, 8_000, format="FLAC")
    assert len(file.getvalue()) < samples.nbytes / 200
    before = server.memory("VmHWM")
    stored = upload(server, file.getvalue())
    assert stored.status_code == 200, stored.text
    assert stored.json()["duration"] == pytest.approx(5.0)
    # Unpacked it is 345 MB, as float twice that.
    assert server.memory("VmHWM") - before < 100 << 20
    httpx.delete(f"{server.url}{VOICES}/{stored.json()['id']}", headers=BEARER).raise_for_status()


def test_no_reference_is_followed(server: Process) -> None:
    """Neither an address nor a path of the server stands for a recording."""
    own = server.folder / "own.wav"
    soundfile.write(own, 0.4 * np.sin(np.arange(48_000, dtype=np.float32) / 5), 16_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.wav"
        for reference in (url, str(own), f"file://{own}"):
            for field in ("audio_sample", "audio", "file"):
                body = {"name": "Ada", "consent": "true", field: reference}
                for sent in ({"data": body}, {"files": {key: (None, value) for key, value in body.items()}}):
                    refused = httpx.post(server.url + VOICES, headers=BEARER, **sent)  # type: ignore[arg-type]
                    assert refused.status_code == 400
            assert upload(server, reference.encode() * 50).status_code == 400
            for voice in (reference, {"id": reference}):
                assert code(speak(server, voice=voice, model="parrot")) in NO_VOICE
        assert speak(server, model=url).status_code == 404
        with pytest.raises(TimeoutError):
            listener.accept()
    unknown = httpx.post(server.url + VOICES, headers=BEARER, files={"name": (None, "Ada"), "path": (None, str(own))})
    assert unknown.status_code == 400
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
            assert code(speak(server, voice=name, model="parrot")) in NO_VOICE
            assert code(speak(server, model=name)) == (404, "model_not_found")
        # Written by hand: a client's library would tidy the path up.
        for target in ("/web/../config.py", "/web/..%2fconfig.py", "/web/%2e%2e/config.py", "/web//etc/passwd"):
            with Wire(server.address) as wire:
                wire.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                status = wire.read_until(b"\r\n")
            assert b" 404 " in status or b" 401 " in status, (target, status)
    assert outside.read_bytes() == b"secret"
    assert (server.folder / "keys.toml").exists()


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


def test_a_public_address_is_served_with_leave(tmp_path: Path) -> None:
    with serve_stand_ins(tmp_path, HOST="0.0.0.0", NIGHTINGALE_ALLOW_PUBLIC="true") as server:  # noqa: S104
        assert httpx.get(server.url + "/v1/models").status_code == 200
