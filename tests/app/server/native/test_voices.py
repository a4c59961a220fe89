"""Cloned voices over a real socket: uploaded, spoken in, deleted; refused with the reason."""

from __future__ import annotations

import json
import re
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from websockets.sync.client import connect

from app.audio import decoder_process
from app.voices.service import SPOOLED, UPLOADS
from tests.app.audio.recordings import giant_frame, many_samples
from tests.app.server.cloning import (
    TEXT,
    VOICES,
    cloned,
    error,
    nothing_is_stored,
    pitch_of,
    recording,
    speak,
    stored,
    upload,
)
from tests.app.server.streams import until_answer

ODD_FORM = "multipart/form-data; boundary=x; charset"
ODD_TEXT = b'--x\r\nContent-Disposition: form-data; name="\\ud800\xff"\r\n\r\n\\ud800\xff\r\n--x--\r\n'
# No text has the second; the last is none that Python knows.
CHARSETS = ("punycode", "undefined", "idna", "utf-7", "utf-16", "unicode_escape", "hex", "none")


def test_a_recording_becomes_a_voice_that_is_spoken_in(running: Any) -> None:
    response = upload(running, recording(700.0), name=" Ada ", language="en", gender="female")
    assert response.status_code == 200
    entry = response.json()
    assert re.fullmatch("voice_[0-9a-f]{24}", entry.pop("id"))
    assert entry.pop("created_at") > 1_700_000_000
    kinds = {"object": "audio.voice", "kind": "cloned", "type": "audio_sample"}
    speaker = {"name": "Ada", "language": "en-us", "gender": "female"}
    assert entry == {**kinds, **speaker, "model": None, "languages": None, "duration": 3.0}
    audio = speak(running, response.json()["id"])
    assert audio.headers["x-watermark"] == "none"
    assert pitch_of(audio.content) == pytest.approx(700, abs=5)
    assert pitch_of(speak(running, "own").content) == pytest.approx(300, abs=5)
    assert {request.voice for request in running.parrot.requests} == {response.json()["id"], "own"}


def test_over_the_websocket_too(running: Any) -> None:
    voice = cloned(running, 700.0)
    with connect(running.websocket_url) as ws:
        ws.send(json.dumps({"type": "start", "model": "parrot", "voice": voice, "temperature": 0.5}))
        ready = json.loads(ws.recv(timeout=60))
        assert (ready["type"], ready["voice"], ready["watermark"]) == ("ready", voice, "none")
        ws.send(json.dumps({"type": "text", "text": "One sentence here. Another there."}))
        ws.send(json.dumps({"type": "end"}))
        chunks, audio, event = until_answer(ws)
        assert event["type"] == "done", event
    assert pitch_of(audio) == pytest.approx(700, abs=5)
    assert [chunk["text"] for chunk in chunks] == ["One sentence here."] * 2 + ["Another there."] * 2
    assert chunks[2]["start"] == pytest.approx(sum(chunk["duration"] for chunk in chunks[:2]), abs=1e-4)
    assert "t3_decode" in event["stages"]
    first, second = running.parrot.requests
    assert (first.first, second.first) == (True, False)
    assert (first.text, first.phonemes, first.sampling.temperature) == ("One sentence here.", "", 0.5)


@pytest.mark.parametrize("field", ["audio", "file"])
@pytest.mark.parametrize("container", ["FLAC", "OGG", "MP3"])
def test_other_names_and_formats(running: Any, field: str, container: str) -> None:
    response = upload(running, recording(container=container), field)
    assert response.status_code == 200
    assert response.json()["duration"] == pytest.approx(3.0, abs=0.1)


def test_openais_own_client(running: Any) -> None:
    client = openai.OpenAI(base_url=running.url + "/v1", api_key="none")
    voice = client.audio.voices.create(name="Ada", consent="true", audio_sample=("a.wav", recording(600.0)))
    assert voice.object == "audio.voice"
    audio = client.audio.speech.create(
        model="parrot", voice={"id": voice.id}, input=TEXT, response_format="pcm"
    )  # its form for custom voices
    assert pitch_of(audio.content) == pytest.approx(600, abs=5)
    assert client.audio.voices.delete(voice.id).deleted
    with pytest.raises(openai.BadRequestError, match="no cloned voice"):
        client.audio.speech.create(model="parrot", voice={"id": voice.id}, input=TEXT)


def test_lists_keep_their_shape_and_say_which_are_cloned(running: Any) -> None:
    voice = cloned(running)
    plain = httpx.get(running.url + VOICES).json()
    assert plain["voices"] == plain["data"]
    assert {entry["kind"] for entry in plain["voices"]} == {"builtin"}  # the default model cannot clone
    steady = {"id": "steady", "name": "steady", "language": "en-us", "gender": "male", "model": "tone"}
    assert steady.items() <= plain["voices"][0].items()
    able = httpx.get(running.url + VOICES, params={"model": "parrot"}).json()["voices"]
    kinds = [(entry["id"], entry["kind"], entry["model"]) for entry in able]
    assert kinds == [("own", "builtin", "parrot"), (voice, "cloned", "parrot")]
    only = httpx.get(running.url + VOICES, params={"kind": "cloned"}).json()["voices"]
    assert [(entry["id"], entry["model"]) for entry in only] == [(voice, None)]
    none = httpx.get(running.url + VOICES, params={"kind": "cloned", "model": "tone"}).json()["voices"]
    assert none == []
    one = httpx.get(f"{running.url}{VOICES}/{voice}").json()
    assert (one["id"], one["kind"]) == (voice, "cloned")
    own = httpx.get(f"{running.url}{VOICES}/own", params={"model": "parrot"}).json()
    assert (own["id"], own["kind"], own["model"]) == ("own", "builtin", "parrot")


def test_a_deleted_voice_is_gone(running: Any, tmp_path: Path) -> None:
    voice = cloned(running)
    speak(running, voice)
    assert len(stored(tmp_path)) == 2
    response = httpx.delete(f"{running.url}{VOICES}/{voice}")
    assert response.json() == {"id": voice, "object": "audio.voice", "deleted": True}
    assert stored(tmp_path) == []
    error(speak(running, voice), 400, "unknown_voice")
    error(httpx.get(f"{running.url}{VOICES}/{voice}"), 404, "not_found")
    error(httpx.delete(f"{running.url}{VOICES}/{voice}"), 404, "not_found")
    assert httpx.get(running.url + VOICES, params={"kind": "cloned"}).json()["voices"] == []


def test_deletion_lets_speech_under_way_finish(running: Any, wait_until: Any) -> None:
    voice = cloned(running, 700.0)
    whole = speak(running, voice).content
    running.parrot.hold.clear()
    with ThreadPoolExecutor(1) as pool:
        speaking = pool.submit(speak, running, voice)
        assert wait_until(lambda: len(running.parrot.requests) == 2)
        assert httpx.delete(f"{running.url}{VOICES}/{voice}").status_code == 200
        error(speak(running, voice), 400, "unknown_voice")
        running.parrot.hold.set()
        assert speaking.result().content == whole


@pytest.mark.parametrize(
    ("fields", "code", "param", "says"),
    [
        ({"consent": "false"}, "consent_missing", "consent", "consent of its speaker"),
        ({"consent": ""}, "consent_missing", "consent", "send 'consent' as true"),
        ({"consent": "cons_1234"}, "consent_missing", "consent", "true"),
        ({"name": "  "}, "invalid_request", "name", "1 to 100"),
        ({"name": "x" * 101}, "invalid_request", "name", "1 to 100"),
        ({"name": "a\u0007b"}, "invalid_request", "name", "printable"),
        ({"gender": "robot"}, "invalid_request", "gender", "female, male"),
        ({"language": "klingon"}, "unsupported_language", "language", "accepted are"),
        ({"langauge": "en"}, "invalid_request", "langauge", "Unknown parameter"),
        ({"type": "prompt"}, "invalid_request", "type", "audio_sample"),
        ({"name": "x" * 5_000}, "invalid_request", None, "maximum size"),
    ],
)
def test_what_is_wrong_is_said(cloning: Any, fields: dict[str, str], code: str, param: str | None, says: str) -> None:
    found = error(upload(cloning, **fields), 400, code)
    assert found["param"] == param
    assert says in found["message"]
    assert nothing_is_stored(cloning)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"not audio", "cannot be read"),
        (recording(seconds=0.4), "0.40 seconds"),
        (recording()[:40], "recording"),
        (many_samples(), "Accepted are WAV"),
        (giant_frame(), "Accepted are WAV"),
    ],
    ids=["text", "short", "cut", "many-samples", "giant-frame"],
)
def test_bad_recordings_are_refused(cloning: Any, data: bytes, says: str) -> None:
    assert says in error(upload(cloning, data), 400, "unusable_recording")["message"]
    assert nothing_is_stored(cloning)


def test_no_page_of_another_site_adds_a_voice(cloning: Any) -> None:
    files = {"file": ("a.wav", recording())}
    body = {"name": "Eve", "consent": "true"}
    foreign = httpx.post(cloning.url + VOICES, data=body, files=files, headers={"sec-fetch-site": "cross-site"})
    error(foreign, 403, "cross_site")
    assert nothing_is_stored(cloning)


def test_events_count_the_tokens_that_were_drawn(cloning: Any) -> None:
    events = speak(cloning, "own", stream_format="sse").text.strip().split("\n\n")
    usage = json.loads(events[-1].removeprefix("data: "))["usage"]
    assert usage == {"input_tokens": len(TEXT), "output_tokens": len(TEXT), "total_tokens": 2 * len(TEXT)}


def test_a_body_without_a_file(cloning: Any) -> None:
    url = cloning.url + VOICES
    for response in (
        httpx.post(url, json={"name": "Ada"}),
        httpx.post(url, data={"name": "Ada", "consent": "true"}),
        httpx.post(url, content=b"--x\r\nbroken", headers={"content-type": "multipart/form-data; boundary=x"}),
        httpx.post(url, data={"name": "Ada", "consent": "true", "audio_sample": "text"}),
        *(httpx.post(url, content=ODD_TEXT, headers={"content-type": f"{ODD_FORM}={charset}"}) for charset in CHARSETS),
    ):
        assert response.status_code == 400, response.text
        assert not response.json()["error"]["message"].endswith("..")
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_uploads_are_bounded_and_other_bodies_as_before(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), max_upload_bytes=400_000, max_body_bytes=2_048)
    assert upload(running, recording(seconds=5)).status_code == 200
    error(upload(running, recording(seconds=20)), 413, "body_too_large")
    error(speak(running, "own", input="x" * 4_000), 413, "body_too_large")

    def pieces() -> Any:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(50):
            yield bytes(20_000)

    # No content-length: it is found out while it comes.
    response = httpx.post(
        running.url + VOICES, content=pieces(), headers={"content-type": "multipart/form-data; boundary=x"}
    )
    error(response, 413, "body_too_large")
    assert response.headers["connection"] == "close"


def test_clients_that_do_not_end_their_bodies(running: Any, wait_until: Any) -> None:
    """They hold no slot and little room, so that others may speak and send their bodies."""
    host, port = running.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        for _ in range(SPOOLED + 2):
            client = stack.enter_context(socket.create_connection((host, int(port))))
            client.sendall(
                b"POST /v1/audio/voices HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n"
                b"content-type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
            )
        assert upload(running).status_code == 200
        assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
        assert speak(running, "own").status_code == 200


def test_an_upload_that_is_all_there_takes_a_slot(
    start_server: Any, tmp_path: Path, parrot: Any, wait_until: Any
) -> None:
    parrot.hold.clear()
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), max_streams=1, parrot=parrot)
    url = running.url + "/v1/audio/speech"
    body = {"input": TEXT, "model": "parrot", "response_format": "pcm"}
    with httpx.stream("POST", url, json=body, timeout=60) as reply:
        pieces = reply.iter_raw()
        assert next(pieces)
        error(upload(running), 503, "overloaded")
        parrot.hold.set()
        assert list(pieces)
    assert wait_until(lambda: upload(running).status_code == 200)


def test_a_client_that_goes_while_its_recording_is_decoded(
    start_server: Any, wait_until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = tmp_path / "endless.py"
    endless.write_text(
        f"import sys, time\nsys.path.insert(0, {str(Path(decoder_process.__file__).parent)!r})\n"
        "import decoder_process as program\nhonest = program.decode\n"
        "program.decode = lambda data, *limits: honest(data, *limits) if data[:4] == b'RIFF' else time.sleep(600)\n"
        "program.main()"
    )
    monkeypatch.setattr(decoder_process, "__file__", str(endless))
    running = start_server(data_dir=str(tmp_path / "data"))
    request = httpx.Request(
        "POST", running.url + VOICES, data={"name": "Ada", "consent": "true"}, files={"file": ("a", b"endless")}
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    # More than the processes: those that wait for their turn are given up, too.
    clients = []
    for _ in range(UPLOADS + 1):
        client = socket.create_connection((request.url.host, request.url.port))
        client.sendall(f"POST {VOICES} HTTP/1.1\r\n{head}\r\n".encode() + request.read())
        clients.append(client)
    assert wait_until(lambda: f"nightingale_active_streams {len(clients)}.0" in running.metrics())
    for client in clients:
        client.close()
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    assert wait_until(lambda: upload(running).status_code == 200)


def test_only_so_much_of_a_recording_is_kept(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), voice_seconds=4.0)
    assert upload(running, recording(seconds=9.0)).json()["duration"] == 4.0


def test_a_recording_too_short_for_the_model(running: Any) -> None:
    voice = upload(running, recording(seconds=1.5)).json()["id"]
    found = error(speak(running, voice), 400, "unusable_recording")
    assert "parrot" in found["message"]
    assert "at least 2" in found["message"]
    assert found["param"] == "voice"


def test_a_model_that_cannot_clone_names_those_that_can(running: Any) -> None:
    voice = cloned(running)
    found = error(speak(running, voice, model="tone"), 400, "unknown_voice")
    assert "'tone'" in found["message"]
    assert "parrot" in found["message"]


@pytest.mark.parametrize(("container", "room"), [("WAV", 2 << 20), ("FLAC", 1 << 20)], ids=["upload", "voice"])
def test_a_full_disk_is_said(running: Any, tmp_path: Path, container: str, room: int) -> None:
    """The disk that takes uploads in, and that of the voices: no file may grow beyond `room`, which is as good."""
    data = recording(seconds=80.0 if container == "WAV" else 29.0, container=container)
    assert (len(data) > room) == (container == "WAV")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        refused = error(upload(running, data), 507, "storage_full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused["type"] == "server_error"
    assert stored(tmp_path) == []
    assert cloned(running)


# Conditioning of a recording: made once, given up, kept on disk.

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
