"""Cloned voices over a real socket: uploaded, spoken in, deleted; refused with the reason; after a restart."""

from __future__ import annotations

import io
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
import numpy as np
import openai
import pytest
import soundfile
from websockets.sync.client import connect

VOICES = "/v1/audio/voices"
RATE = 24_000
TEXT = "A sentence of the clone."


def recording(pitch: float = 500.0, seconds: float = 3.0, container: str = "WAV") -> bytes:
    file = io.BytesIO()
    samples = 0.4 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * 16_000)) / 16_000)
    soundfile.write(file, samples.astype(np.float32), 16_000, format=container)
    return file.getvalue()


def upload(server: Any, data: bytes | None = None, field: str = "audio_sample", **fields: str) -> httpx.Response:
    body = {"name": "Ada", "consent": "true"} | fields
    files = {field: ("voice.wav", recording() if data is None else data)}
    return httpx.post(server.url + VOICES, data=body, files=files, timeout=20)


def cloned(server: Any, pitch: float = 500.0, **fields: str) -> str:
    response = upload(server, recording(pitch), **fields)
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


def speak(server: Any, voice: str, **more: object) -> httpx.Response:
    body = {"input": TEXT, "model": "parrot", "voice": voice, "response_format": "pcm"} | more
    return httpx.post(server.url + "/v1/audio/speech", json=body, timeout=20)


def pitch_of(audio: bytes) -> float:
    pcm = np.frombuffer(audio, "<i2").astype(np.float32)
    return float(np.argmax(np.abs(np.fft.rfft(pcm)))) * RATE / pcm.size


def error(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    found = response.json()["error"]
    assert found["code"] == code, found
    return dict(found)


@pytest.fixture
def running(start_server: Any, tmp_path: Path) -> Any:
    return start_server(data_dir=str(tmp_path / "data"), preload=("parrot",))


def stored(tmp_path: Path) -> list[str]:
    folder = tmp_path / "data" / "voices"
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock") if folder.is_dir() else []


def nothing_is_stored(server: Any) -> bool:
    return httpx.get(server.url + VOICES, params={"kind": "cloned"}).json()["voices"] == []


def test_a_recording_becomes_a_voice_that_is_spoken_in(running: Any) -> None:
    response = upload(running, recording(700.0), name=" Ada ", language="en", gender="female")
    assert response.status_code == 200
    entry = response.json()
    assert re.fullmatch("voice_[0-9a-f]{24}", entry.pop("id"))
    assert entry.pop("created_at") > 1_700_000_000
    assert entry == {
        "name": "Ada",
        "language": "en-us",
        "gender": "female",
        "model": None,
        "object": "audio.voice",
        "kind": "cloned",
        "duration": 3.0,
        "type": "audio_sample",
    }
    audio = speak(running, response.json()["id"])
    assert audio.headers["x-watermark"] == "none"
    assert pitch_of(audio.content) == pytest.approx(700, abs=5)
    assert pitch_of(speak(running, "own").content) == pytest.approx(300, abs=5)
    assert {request.voice for request in running.parrot.requests} == {response.json()["id"], "own"}


def test_over_the_websocket_too(running: Any) -> None:
    voice = cloned(running, 700.0)
    with connect(running.websocket_url) as ws:
        ws.send(json.dumps({"type": "start", "model": "parrot", "voice": voice, "temperature": 0.5}))
        ready = json.loads(ws.recv(timeout=10))
        assert (ready["type"], ready["voice"], ready["watermark"]) == ("ready", voice, "none")
        ws.send(json.dumps({"type": "text", "text": "One sentence here. Another there."}))
        ws.send(json.dumps({"type": "end"}))
        audio, chunks = b"", []
        while True:
            message = ws.recv(timeout=10)
            if isinstance(message, bytes):
                audio += message
                continue
            event = json.loads(message)
            if event["type"] == "done":
                break
            assert event["type"] == "chunk", event
            chunks.append(event)
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
    assert {"id": "steady", "name": "steady", "language": "en-us", "gender": "male", "model": "tone"}.items() <= plain[
        "voices"
    ][0].items()
    able = httpx.get(running.url + VOICES, params={"model": "parrot"}).json()["voices"]
    assert [(entry["id"], entry["kind"], entry["model"]) for entry in able] == [
        ("own", "builtin", "parrot"),
        (voice, "cloned", "parrot"),
    ]
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
    [(b"not audio", "cannot be read"), (recording(seconds=0.4), "0.40 seconds"), (recording()[:40], "recording")],
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


def test_the_interface_is_described(cloning: Any) -> None:
    described = httpx.get(cloning.url + "/openapi.json").json()
    form = described["paths"][VOICES]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert set(form["required"]) == {"name", "audio_sample", "consent"}
    fields = described["components"]["schemas"]["SpeechBody"]["properties"]
    limits = {key: value for part in fields["top_p"]["anyOf"] for key, value in part.items()}
    assert (limits["minimum"], limits["maximum"]) == (0.01, 1.0)
    assert fields["exaggeration"]["description"]
    assert {"get", "delete"} <= set(described["paths"][VOICES + "/{voice_id}"])


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
    ):
        assert response.status_code == 400, response.text
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


def test_a_client_that_goes_while_it_sends(running: Any, wait_until: Any) -> None:
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /v1/audio/voices HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n"
            b"content-type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        )
        assert wait_until(lambda: "tts_active_streams 1.0" in running.metrics())
    assert wait_until(lambda: "tts_active_streams 0.0" in running.metrics())


def test_there_is_a_greatest_number_of_voices(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), max_voices=1)
    voice = cloned(running)
    error(upload(running), 400, "too_many_voices")
    httpx.delete(f"{running.url}{VOICES}/{voice}")
    cloned(running)


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


@pytest.mark.parametrize("voice", ["voice_" + "0" * 24, "voice_../../x", "../../etc/passwd", "voice_%2e%2e", "VOICE_"])
def test_voices_that_do_not_exist(cloning: Any, voice: str) -> None:
    error(speak(cloning, voice), 400, "unknown_voice")
    quoted = voice.replace("/", "%2F")
    for method in ("GET", "DELETE"):
        response = httpx.request(method, f"{cloning.url}{VOICES}/{quoted}", params={"model": "parrot"})
        assert response.status_code in (404, 405), response.text
    assert nothing_is_stored(cloning)


# Made ready once.


def counted(server: Any, source: str) -> float:
    found = re.search(rf'tts_voice_conditionings_total{{source="{source}"}} ([\d.]+)', server.metrics())
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
        assert wait_until(lambda: "tts_active_streams 6.0" in running.metrics())
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
    assert wait_until(lambda: "tts_active_streams 0.0" in running.metrics())
    running.parrot.gate.set()
    assert speak(running, voice).status_code == 200


def test_what_does_not_fit_in_memory_comes_from_disk(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), voice_cache_bytes=0)
    voice = cloned(running, 700.0)
    speak(running, voice)
    before = counted(running, "disk")
    assert pitch_of(speak(running, voice).content) == pytest.approx(700, abs=5)
    assert counted(running, "disk") == before + 1
    assert "tts_voice_cache_bytes 0.0" in running.metrics()


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
    conftest = Path(__file__).parents[1] / "conftest.py"
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


# Parameters.


def test_parameters_reach_the_model(cloning: Any) -> None:
    assert speak(cloning, "own", temperature=0, exaggeration=1.5, seed=7).status_code == 200
    request = cloning.parrot.requests[-1]
    assert request.sampling.given() == {"exaggeration": 1.5, "temperature": 0}
    assert request.seed == 7
    assert speak(cloning, "own").status_code == 200
    assert cloning.parrot.requests[-1].sampling.given() == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("exaggeration", 2.1), ("exaggeration", -0.1), ("cfg_weight", 3), ("temperature", 5.1), ("temperature", "hot"),
     ("min_p", 1.5), ("top_p", 0), ("repetition_penalty", 0.5), ("repetition_penalty", 3.5), ("min_p", True)],
)  # fmt: skip
def test_parameters_out_of_range(cloning: Any, name: str, value: object) -> None:
    assert error(speak(cloning, "own", **{name: value}), 400, "invalid_request")["param"] == name


@pytest.mark.parametrize(("model", "takes"), [("parrot", "exaggeration, temperature"), ("tone", "none")])
def test_a_parameter_that_the_model_does_not_take(cloning: Any, model: str, takes: str) -> None:
    voice = "own" if model == "parrot" else "steady"
    found = error(speak(cloning, voice, model=model, cfg_weight=0.5), 400, "invalid_request")
    assert found["param"] == "cfg_weight"
    assert f"it takes {takes}" in found["message"]


def test_a_language_that_the_model_does_not_speak(running: Any) -> None:
    found = error(speak(running, "own", lang="fr"), 400, "unsupported_language")
    assert "parrot" in found["message"]
    assert "en-us" in found["message"]
    assert speak(running, "own", lang="en-GB").status_code == 200
    french = cloned(running, language="fr")
    assert speak(running, french).status_code == 200  # whose speaker is French, and who speaks English here


def test_nor_one_that_a_translation_is_in(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), translator="shout")
    french = speak(running, "own", translate_to="fr", source="en")
    assert error(french, 400, "unsupported_language")["param"] == "translate_to"
    english = speak(running, "own", input="Bonjour tout le monde.", translate_to="en", source="fr")
    assert english.status_code == 200
    assert [request.text for request in running.parrot.requests] == ["BONJOUR TOUT LE MONDE."]


@pytest.mark.parametrize(
    ("start", "code", "says"),
    [
        ({"cfg_weight": 0.5}, "invalid_request", "it takes exaggeration, temperature"),
        ({"temperature": 9}, "protocol_error", "'temperature' of 'start'"),
        ({"voice": "voice_" + "0" * 24}, "unknown_voice", "deleted"),
        ({"lang": "fr"}, "unsupported_language", "en-us"),
    ],
)
def test_a_wrong_start_over_the_websocket(cloning: Any, start: dict[str, object], code: str, says: str) -> None:
    with connect(cloning.websocket_url) as ws:
        ws.send(json.dumps({"type": "start", "model": "parrot"} | start))
        answer = json.loads(ws.recv(timeout=10))
    assert (answer["type"], answer["fatal"], answer["error"]["code"]) == ("error", True, code)
    assert says in answer["error"]["message"]


def test_long_text_is_cut_to_what_the_model_reads(cloning: Any) -> None:
    long = "The ferry crosses the river every hour, and nobody who waits for it is ever left behind on the other bank."
    assert speak(cloning, "own", input=f"{long} [pause:0.5s] [Ada](/ˈAdə/) said so.").status_code == 200
    texts = [request.text for request in cloning.parrot.requests]
    assert all(len(text) <= 60 for text in texts)
    assert " ".join(texts) == f"{long} Ada said so."
    assert [request.first for request in cloning.parrot.requests] == [True] + [False] * (len(texts) - 1)


def test_models_say_what_they_hold_and_take(cloning: Any) -> None:
    entries = {entry["id"]: entry for entry in httpx.get(cloning.url + "/v1/models").json()["data"]}
    assert entries["parrot"]["cloning"]
    assert entries["parrot"]["preloaded"]
    assert entries["parrot"]["parameters"] == ["exaggeration", "temperature"]
    assert not entries["tone"]["cloning"]
    assert entries["tone"]["parameters"] == []
    assert entries["tone-two"]["parameters"] is None
    assert entries["tone-two"]["memory_bytes"] is None


def test_tokens_are_counted(cloning: Any, wait_until: Any) -> None:
    def count(name: str) -> float:
        # One line for each surface that spoke.
        return sum(map(float, re.findall(rf'tts_t3_{name}{{model="parrot"[^}}]*}} ([\d.]+)', cloning.metrics())))

    before = count("tokens_total")
    speak(cloning, "own")
    # The client has the last byte before the server has counted.
    assert wait_until(lambda: count("tokens_total") == before + len(TEXT))
    metrics = cloning.metrics()
    for outcome, drafted in (("accepted", 4), ("rejected", 6)):
        found = re.search(rf'tts_t3_draft_tokens_total{{[^}}]*outcome="{outcome}"[^}}]*}} ([\d.]+)', metrics)
        assert found
        assert float(found.group(1)) % drafted == 0
    assert 'stage="t3_decode"' in metrics
