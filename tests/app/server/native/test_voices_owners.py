"""Several keys on one server: whose voices are whose, what each may have, and what ends when a key is taken away."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from app.config import Settings
from app.engine.admission import Client
from app.server.middleware import key_file
from app.server.middleware.key_file import Quotas, parse_keys
from app.voices.store import VoiceStore
from tests.app.server.cloning import TEXT, VOICES, recording
from tests.app.server.middleware.keys import ADA, BOB, bearer
from tests.app.server.streams import session

CID = "cid-0123456789-0123456789"
FILE = f'ada = "{ADA}"\n[bob]\nkey = "{BOB}"\nvoices = 1\n[cid]\nkey = "{CID}"\ncharacters_per_minute = 1500\n'


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> VoiceStore:
    """The voices of the server, beside it."""
    return VoiceStore(tmp_path / "data" / "voices", max_voices=99)


@pytest.fixture
def running(start_server: Any, keys: Path, kept: VoiceStore) -> Any:
    return start_server(data_dir=str(kept.directory.parent), preload=("parrot",), keys_file=str(keys), max_streams=6)


def upload(server: Any, key: str) -> httpx.Response:
    files = {"audio_sample": ("a.wav", recording())}
    body = {"name": "A", "consent": "true"}
    return httpx.post(server.url + VOICES, data=body, files=files, headers=bearer(key), timeout=60)


def speak(server: Any, key: str, **body: object) -> httpx.Response:
    body = {"input": TEXT, "model": "parrot", "response_format": "pcm"} | body
    return httpx.post(server.url + "/v1/audio/speech", json=body, headers=bearer(key), timeout=60)


def ids(server: Any, key: str) -> list[set[str]]:
    """The voices that each listing has."""
    found = []
    with httpx.Client(base_url=server.url, headers=bearer(key)) as client:
        for path in (VOICES + "?kind=cloned", VOICES + "?model=parrot"):
            listed = client.get(path).raise_for_status().json()["data"]
            found.append({voice["id"] for voice in listed if voice["kind"] == "cloned"})
    return found


def without(text: str, voice: str) -> str:
    body = json.loads(text)
    told = body.get("error", body.get("detail", body))
    told.pop("request_id", None)
    return json.dumps(body).replace(voice, "")


def test_a_voice_is_its_key_s_alone(running: Any, kept: VoiceStore) -> None:
    mine = upload(running, ADA).raise_for_status().json()["id"]
    assert speak(running, ADA, voice=mine).status_code == 200
    assert ids(running, ADA) == [{mine}, {mine}]
    assert ids(running, BOB) == [set(), set()]
    # For another key it is as if there were none, also once it is in memory.
    none = "voice_" + "0" * 24
    paths = [("GET", f"{VOICES}/%s"), ("DELETE", f"{VOICES}/%s"), ("GET", "/v1/voices/%s")]
    with httpx.Client(base_url=running.url, headers=bearer(BOB)) as client:
        for method, path in paths:
            foreign, unknown = (client.request(method, path % voice) for voice in (mine, none))
            assert foreign.status_code == unknown.status_code == 404
            assert without(foreign.text, mine) == without(unknown.text, none)
        for model in ("parrot", "tone"):
            foreign, unknown = (speak(running, BOB, voice=voice, model=model) for voice in (mine, none))
            assert foreign.status_code == unknown.status_code == 400
            assert without(foreign.text, mine) == without(unknown.text, none)
        eleven = [
            client.post(f"/v1/text-to-speech/{voice}", json={"text": "Hi.", "model_id": "parrot"})
            for voice in (mine, none)
        ]
        assert {each.status_code for each in eleven} == {404}
    with connect(running.websocket_url, additional_headers=bearer(BOB)) as opened:
        opened.send(json.dumps({"type": "start", "model": "parrot", "voice": mine}))
        assert json.loads(opened.recv(timeout=60))["error"]["code"] == "unknown_voice"
    assert speak(running, ADA, voice=mine).status_code == 200
    assert kept.get(mine) is not None
    assert httpx.delete(f"{running.url}{VOICES}/{mine}", headers=bearer(ADA)).status_code == 200
    assert ids(running, ADA) == [set(), set()]


def test_a_voice_of_nobody_is_everybody_s_to_use(running: Any, kept: VoiceStore) -> None:
    pcm = (0.4 * np.sin(np.arange(72_000) / 8)).astype(np.float32)
    common = kept.add("common", pcm).id
    for key in (ADA, BOB):
        assert ids(running, key) == [{common}, {common}]
        assert speak(running, key, voice=common).status_code == 200
        refused = httpx.delete(f"{running.url}{VOICES}/{common}", headers=bearer(key))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    assert kept.get(common) is not None


def test_without_keys_only_voices_of_nobody_are_there(start_server: Any, kept: VoiceStore) -> None:
    pcm = (0.4 * np.sin(np.arange(72_000) / 8)).astype(np.float32)
    common, owned = kept.add("common", pcm).id, kept.add("owned", pcm, owner="ada").id
    server = start_server(data_dir=str(kept.directory.parent), preload=("parrot",))
    listed = httpx.get(server.url + VOICES, params={"kind": "cloned"}).json()["data"]
    assert [voice["id"] for voice in listed] == [common]
    assert httpx.delete(f"{server.url}{VOICES}/{owned}").status_code == 404
    assert httpx.delete(f"{server.url}{VOICES}/{common}").status_code == 200
    assert [voice.id for voice in kept.voices()] == [owned]


def test_a_key_has_so_many_voices(running: Any) -> None:
    first = upload(running, BOB).raise_for_status().json()["id"]
    refused = upload(running, BOB)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_voices")
    assert "1 voices" in refused.json()["error"]["message"]
    assert upload(running, ADA).status_code == 200
    httpx.delete(f"{running.url}{VOICES}/{first}", headers=bearer(BOB)).raise_for_status()
    assert upload(running, BOB).status_code == 200


@pytest.mark.usefixtures("quota_clock")
def test_uploads_and_detection_are_charged(running: Any) -> None:
    assert upload(running, CID).status_code == 200
    refused = upload(running, CID)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after"]) > 10
    detect = {"q": "Wo ist bitte der Bahnhof? " * 15}
    assert httpx.post(running.url + "/detect", json=detect, headers=bearer(CID), timeout=60).status_code == 200
    refused = httpx.post(running.url + "/detect", json=detect, headers=bearer(CID), timeout=60)
    assert refused.status_code == 429
    assert "1500 characters a minute" in refused.json()["error"]
    assert httpx.post(running.url + "/detect", json=detect, headers=bearer(ADA), timeout=60).status_code == 200


def test_no_key_has_all_streams(running: Any) -> None:
    """With six slots, each of three keys may have three."""
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(session(running, bearer(ADA)))
        assert speak(running, ADA).status_code == 429
        assert speak(running, BOB).status_code == 200


def test_the_share_is_what_nothing_else_is_said_for() -> None:
    one, two = f'a = "{ADA}"', f'a = "{ADA}"\n[b]\nkey = "{BOB}"\nstreams = 0'
    usual = Quotas.of(Settings(max_streams=9))
    assert parse_keys(one, usual).find(ADA) == Client("a", 0, 0, 100)
    assert parse_keys(two, usual).find(ADA) == Client("a", 0, 4, 100)
    assert parse_keys(two, usual).find(BOB) == Client("b", 0, 0, 100)
    assert parse_keys(two, Quotas.of(Settings(key_streams=0))).find(ADA) == Client("a", 0, 0, 100)
    assert parse_keys(two, Quotas.of(Settings(key_streams=7, key_voices=3))).find(ADA) == Client("a", 0, 7, 3)
    assert parse_keys(two, Quotas.of(Settings(max_streams=1))).find(ADA) == Client("a", 0, 1, 100)


# A key is taken away.


def replace(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)  # noqa: PTH105


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "POLL_SECONDS", 0.1)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", ["/v1/audio/stream", "/v1/speak", "/v1/text-to-speech/steady/stream-input"])
def test_its_sockets_are_closed(running: Any, keys: Path, wait_until: Any, path: str) -> None:
    url = running.url.replace("http", "ws", 1) + path
    with (
        connect(url, additional_headers=bearer(BOB)) as gone,
        connect(running.websocket_url, additional_headers=bearer(ADA)) as stays,
    ):
        # Another key under the same name.
        replace(keys, f'ada = "{ADA}"\nbob = "{CID}"')
        with pytest.raises(ConnectionClosed):
            while True:
                gone.recv(timeout=60)
        assert gone.close_code == 1008
        assert "key" in (gone.close_reason or "")
        stays.send(json.dumps({"type": "start"}))
        assert json.loads(stays.recv(timeout=60))["type"] == "ready"
        with pytest.raises(InvalidStatus, match="401"), connect(url, additional_headers=bearer(BOB)):
            pass
        assert wait_until(lambda: "nightingale_active_streams 1.0" in metrics(running, ADA))


def metrics(server: Any, key: str) -> str:
    return httpx.get(server.url + "/metrics", headers=bearer(key)).text


@pytest.mark.usefixtures("quick")
def test_its_replies_are_broken_off(running: Any, keys: Path, wait_until: Any) -> None:
    running.parrot.hold.clear()
    body = {"input": TEXT * 3, "model": "parrot", "response_format": "pcm"}
    url = running.url + "/v1/audio/speech"
    with httpx.stream("POST", url, json=body, headers=bearer(BOB), timeout=60) as reply:
        pieces = reply.iter_raw()
        assert next(pieces)
        replace(keys, f'ada = "{ADA}"')
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    assert wait_until(lambda: "nightingale_active_streams 0.0" in metrics(running, ADA))


@pytest.mark.usefixtures("quick")
def test_what_waits_for_its_first_byte_is_refused(running: Any, keys: Path, wait_until: Any) -> None:
    host, port = running.url.removeprefix("http://").split(":")
    body = json.dumps({"input": "Hi.", "voice": "gated"})
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {BOB}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall((head + body).encode())
        assert wait_until(lambda: "Hi." in running.tone.begun)
        replace(keys, f'ada = "{ADA}"')
        assert b" 401 " in raw.makefile("rb").readline()
    assert wait_until(lambda: "nightingale_active_streams 0.0" in metrics(running, ADA))
