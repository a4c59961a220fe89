"""OpenAI's surface over a real socket: httpx, the openai SDK, and a bare socket where the wire matters."""

import base64
import io
import json
import re
import socket
import threading
import wave
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from app.audio.loudness import LoudnessMeter
from tests.app.server.middleware.keys import ADA, bearer
from tests.app.server.streams import say, session

SPEECH = "/v1/audio/speech"
TRANSCRIPTIONS, DIALOGUE = "/v1/audio/transcriptions", "/v1/audio/dialogue"
LONG = "This is the first sentence. Here comes the second one. And this is the third of them. Now the fourth one."


def post(server: Any, timeout: float = 60, **body: object) -> httpx.Response:
    return httpx.post(server.url + SPEECH, json=body, timeout=timeout)


def pcm_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<i2").astype(np.float32) / 32767


def test_a_sentence_becomes_a_wav_with_its_exact_length(server: Any) -> None:
    response = post(server, input="Hello world.")
    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/wav"
    assert int(response.headers["content-length"]) == len(response.content)
    with wave.open(io.BytesIO(response.content)) as wav:
        assert wav.getframerate() == 24_000
        assert wav.getnframes() * 2 + 44 == len(response.content)
        pcm = pcm_of(wav.readframes(wav.getnframes()))
    assert pcm.size > 2_000
    assert np.abs(pcm).max() == pytest.approx(0.5, abs=0.01)


def test_a_longer_text_is_streamed_and_whole(server: Any) -> None:
    response = post(server, input=LONG)
    assert "content-length" not in response.headers
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.content[:4] == b"RIFF"
    assert response.content[4:8] == response.content[40:44] == b"\xff\xff\xff\xff"
    raw = post(server, input=LONG, response_format="pcm").content
    assert response.content[44:] == raw
    assert len(server.tone.computed) == 8


def test_server_timing_names_the_stages(server: Any) -> None:
    timing = post(server, input="Hello world.").headers["server-timing"]
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", timing))
    assert {"queue", "g2p", "decoder", "audio_encode", "total"} <= set(stages)
    assert float(stages["total"]) >= float(stages["g2p"])


@pytest.mark.parametrize("text", ["Hello world.", LONG])
@pytest.mark.parametrize("name", ["pcm", "mp3", "mulaw"])
def test_sse_deltas_join_to_the_very_stream(server: Any, name: str, text: str) -> None:
    plain = post(server, input=text, response_format=name).content
    response = post(server, input=text, response_format=name, stream_format="sse")
    assert response.headers["content-type"] == "text/event-stream"
    events = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    assert [event["type"] for event in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1)
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == plain
    assert events[-1]["type"] == "speech.audio.done"
    usage = events[-1]["usage"]
    assert usage["input_tokens"] == len(text)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


TWO = "Hello there. Good bye."


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        (TWO, {}, [0.5]),
        (TWO, {"speed": 2.0}, [0.25]),
        (TWO, {"speed": 0.5}, [1.0]),
        (TWO, {"pauses": {"sentence": 0.2}}, [0.2]),
        (f"{TWO}\n\nAs always.", {}, [0.5, 0.9]),
        (f"{TWO}\n\nAs always.", {"speed": 2.0}, [0.25, 0.45]),
        (f"{TWO}\n\nAs always.", {"pauses": {"sentence": 0.3, "paragraph": 1.5}}, [0.3, 1.5]),
        (f"{TWO}\n\nAs always.", {"pauses": {"sentence": 1.2}}, [1.2, 1.2]),
        ("<speak><p>Hello there.</p><p>Good bye.</p></speak>", {"pauses": {"paragraph": 2}}, [2.0]),
        ("Hello there. [pause:1.5s] Good bye.", {}, [1.5]),
    ],
)
def test_pauses_have_their_lengths(server: Any, text: str, fields: dict[str, Any], expected: list[float]) -> None:
    pcm = pcm_of(post(server, input=text, response_format="pcm", **fields).content)
    gaps = np.diff(np.flatnonzero(np.abs(pcm) > 1e-3)) / 24_000
    assert gaps[gaps > 0.1] == pytest.approx(expected, abs=0.03)


def test_the_settings_and_the_start_of_a_socket_choose_the_pauses(start_server: Any) -> None:
    sizes = []
    for pauses in ({"sentence": 0.2}, {"sentence": 1.2}):
        server = start_server(pauses=pauses)
        paragraphs = ({"pauses": {"sentence": 0.7, "paragraph": 1.9}}, TWO.replace(". ", ".\n\n"))
        for start, text in (({}, TWO), ({"pauses": {"sentence": 0.7}}, TWO), paragraphs):
            with session(server, **start) as socket:
                sizes.append(len(say(socket, text)[1]) / 48_000)
    assert np.array(sizes) - sizes[0] == pytest.approx([0, 0.5, 1.7, 1.0, 0.5, 1.7], abs=0.03)


def test_every_voice_has_the_loudness_of_the_setting(start_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The meter's own value is that of EBU Tech 3341: 997 Hz at -23 dBFS in one channel has -26.0 LUFS."""
    meter = LoudnessMeter(24_000)
    meter.push((10 ** (-23 / 20) * np.sin(2 * np.pi * 997 * np.arange(48_000) / 24_000)).astype(np.float32))
    assert meter.loudness == pytest.approx(-26.0, abs=0.05)
    server = start_server(loudness=-19.0)
    for voice, level in (("steady", 0.5), ("silky", 0.03), ("steady", 0.5)):
        monkeypatch.setattr("tests.app.standins.LEVEL", level)
        meter = LoudnessMeter(24_000)
        text = LONG.replace(". ", ", ")
        meter.push(pcm_of(post(server, input=text, voice=voice, response_format="pcm").content))
        assert meter.loudness == pytest.approx(-19.0, abs=0.3)


def test_a_lexicon_costs_the_words_that_it_says(start_server: Any, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(f'[ada]\nkey = "{ADA}"\ncharacters_per_minute = 100\n')
    server = start_server(keys_file=str(tmp_path / "keys.toml"))
    answers = []
    for path in (SPEECH, "/v1/phonemes"):
        for alias in ("word", "word " * 80):
            body = {"input": "A. A. A. A.", "lexicon": {"A": alias}}
            answers.append(httpx.post(server.url + path, json=body, headers=bearer(ADA)).status_code)
    assert (answers, len(server.tone.begun)) == ([200, 429, 200, 429], 1)


def test_silence_is_bounded_by_the_words(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = post(server, input="Hi. " + "[pause:10s] " * 70)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_markup")
    breaks = "<speak>Hi." + "<break time='10s'/>Hi." * 80 + "</speak>"
    assert "at most" in post(server, input=breaks).json()["error"]["message"]
    monkeypatch.setattr("app.speech.planner.MAX_SILENCE_SECONDS", 2.0)
    monkeypatch.setattr("app.speech.planner.SILENCE_PER_CHARACTER", 0.0)
    body = {"input": "One. Two. Three. Four.", "response_format": "pcm", "pauses": {"sentence": 1.5}}
    with_pauses, without = (post(server, **(body | more)).content for more in ({}, {"pauses": {"sentence": 0}}))
    assert (len(with_pauses) - len(without)) / 48_000 == pytest.approx(2.0, abs=0.1)


def test_markup_is_text_where_the_client_says_so(server: Any) -> None:
    assert post(server, input="<speak>Stop. Go.</b>", input_type="text").status_code == 200


def test_speed_changes_the_length(server: Any) -> None:
    sizes = [len(post(server, input=LONG, response_format="pcm", speed=speed).content) for speed in (0.5, 1, 2)]
    assert sizes[0] == pytest.approx(2 * sizes[1], rel=0.01)
    assert sizes[2] == pytest.approx(sizes[1] / 2, rel=0.01)


NAMES = [("model", name) for name in (None, "tone", "t", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")]
NAMES += [("voice", name) for name in (None, "steady", {"id": "silky"}, "alloy", "onyx", "verse")]


@pytest.mark.parametrize(("field", "name"), NAMES)
def test_names_of_models_and_voices(server: Any, field: str, name: object) -> None:
    reply = post(server, **{"input": "Hi.", "instructions": "cheerfully", field: name})
    assert (reply.status_code, reply.headers["x-ignored"]) == (200, "parameter instructions")


def test_a_speed_that_the_model_does_not_reach_is_named(server: Any) -> None:
    assert post(server, input="Hi.", speed=2.1).headers["x-ignored"] == "speed above 2"
    assert "x-ignored" not in post(server, input="Hi.", speed=2.0).headers


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"input": "Hi", "sample_rate": 1}, (400, "unsupported_format", "sample_rate", "8000")),
        ({"input": "Hi", "response_format": "opus", "sample_rate": 44_100}, (400, "unsupported_format", None, "48000")),
        ({"input": "Hi", "pauses": {"sentence": -1}}, (400, "invalid_request", "pauses", "greater than or equal to 0")),
        ({"input": "Hi", "pauses": {"word": 1}}, (400, "invalid_request", "pauses", "'sentence' or 'paragraph'")),
        ({"input": "Hi [pause:soon]"}, (400, "invalid_markup", "input", "pause")),
        ({"input": "Hi", "speed": "fast"}, (400, "invalid_request", "speed", "number")),
        ({"input": "Hi", "speed": True}, (400, "invalid_request", "speed", "number")),
        ({"input": 5}, (400, "invalid_request", "input", "string")),
        ({"input": None}, (400, "invalid_request", "input", "required")),
        ({"voice": "steady"}, (400, "invalid_request", "input", "Missing")),
        ({"input": "Hi", "stream_format": "smoke"}, (400, "invalid_request", "stream_format", "sse")),
        ({"input": "Hi", "voice": {"name": "x"}}, (400, "invalid_request", "voice", "voice")),
        ({"input": "Hi", "voice": {"id": []}}, (400, "invalid_request", "voice", "Invalid 'voice': Input should be a")),
        ({"input": "Hi", "seed": -1}, (400, "invalid_request", "seed", "0")),
    ],
)
def test_errors_have_openai_s_shape(
    server: Any, body: dict[str, object], expected: tuple[int, str, str | None, str]
) -> None:
    status, code, param, says = expected
    response = post(server, **body)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code", "request_id"}
    assert error["code"] == code
    assert param is None or error["param"] == param
    assert says in error["message"]
    assert "Traceback" not in response.text
    assert response.headers["x-request-id"]
    assert post(server, input="Hi.").status_code == 200


def many(count: int, **given: object) -> bytes:
    """A body with so many fields that nobody knows."""
    return json.dumps(given | dict.fromkeys(map(str, range(count)), 1)).encode()


ZEROS, TWICE = b"0," * 15_000 + b"0", b'{"input_audio": {"data": ""}, "include": [0, 0]}'


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code", "says"),
    [
        ("GET", "/nowhere", b"", 404, "not_found", "/nowhere"),
        ("GET", "/v1/audio/stream", b"", 404, "not_found", "It is a WebSocket"),
        ("GET", SPEECH, b"", 405, "method_not_allowed", "POST"),
        ("POST", SPEECH + "/x", b"", 404, "not_found", "/x"),
        ("DELETE", "/v1/models", b"", 405, "method_not_allowed", "GET"),
        ("POST", SPEECH, b'{"input": "Hi", "voice": "\\ud800"}', 400, "invalid_request", "surrogate"),
        ("POST", SPEECH, b'{"input": "Hi", "speed": NaN}', 400, "invalid_request", "speed"),
        ("POST", SPEECH, b'{"input": "Hi", "speed": 1e999}', 400, "invalid_request", "speed"),
        ("POST", SPEECH, b'{"input": "Hi", "seed": ' + b"9" * 5_000 + b"}", 400, "invalid_request", ""),
        ("POST", DIALOGUE, many(2_000, inputs=[]), 400, "invalid_request", "2001 param"),
        ("POST", "/v1/phonemes", many(2_000, input="Hi"), 400, "invalid_request", "2000 param"),
        ("POST", DIALOGUE, b'{"inputs": [' + ZEROS + b"]}", 400, "invalid_request", "'inputs.0'"),
        ("POST", "/v1/translate", b'{"target": "fr", "text": [' + ZEROS + b"]}", 400, "invalid_request", "text"),
        ("POST", TRANSCRIPTIONS, TWICE, 400, "invalid_request", "include"),
        ("POST", TRANSCRIPTIONS, b'{"x": [' + b"{}," * 1_000 + b"{}]}", 400, "invalid_request", "more than 1000 lists"),
        ("GET", "/v1/models/hal", b"", 404, "model_not_found", "hal"),
        ("GET", "/v1/audio/voices?model=hal", b"", 404, "model_not_found", "hal"),
        ("GET", "/v1/audio/voices?model=absent", b"", 503, "model_not_installed", "models pull"),
    ],
)
def test_every_path_answers_errors_alike(
    server: Any, method: str, path: str, content: bytes, status: int, code: str, says: str
) -> None:
    headers = {"content-type": "application/json"} if content else {}
    response = httpx.request(method, server.url + path, content=content, headers=headers)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code
    assert says in error["message"]
    assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"input": "Hello.", "voice": {"id": "silky"}, "response_format": "pcm", "speed": 2}', 200),
        ('{"input": "Grüße."}'.encode("utf-16"), 200),
        (b'{"input": "One. Two.", "stream_format": "sse"}', 200),
        (b'{"input": "Hello.", "seed": true}', 400),
        (b"{", 400),
    ],
)
def test_every_name_of_json_is_answered_alike(server: Any, body: bytes, status: int) -> None:
    answers = []
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/vnd.speech+json"):
        headers = {"content-type": kind, "x-request-id": "same"}
        answer = httpx.post(server.url + SPEECH, content=body, headers=headers)
        told = {name: value for name, value in answer.headers.items() if name not in ("date", "server-timing")}
        answers.append((answer.status_code, answer.content, told))
    assert answers[0][0] == status
    assert answers[1:] == answers[:1] * 2


def test_a_later_sentence_that_fails_is_told_while_it_can_be(server: Any) -> None:
    answer = post(server, input="One. Two.", voice="breaks_second", response_format="srt")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_failed")


def test_a_form_is_told_to_be_json(server: Any) -> None:
    for sent in ({"data": {"input": "Hi"}}, {"content": b'{"input": "Hi"}', "headers": {"content-type": "text/plain"}}):
        response = httpx.post(server.url + SPEECH, **sent)
        assert response.status_code == 400
        assert "application/json" in response.json()["error"]["message"]


def test_a_chunked_body_is_bounded_too(server: Any) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b"a" * 8_192

    response = httpx.post(server.url + SPEECH, content=endless(), headers={"content-type": "application/json"})
    assert response.status_code == 413


def test_a_client_s_request_id_comes_back(server: Any) -> None:
    assert httpx.get(server.url + "/livez", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    strange = httpx.get(server.url + "/livez", headers={"x-request-id": "a b<script>"}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{32}", strange)


def test_small_pieces_are_sent_at_once(server: Any) -> None:
    # Nagle's algorithm with delayed acknowledgements would add 40 ms.
    with httpx.Client(base_url=server.url) as client:
        client.post(SPEECH, json={"input": "Hello world."})
        wires = [each.transport.get_extra_info("socket") for each in list(server.server.server_state.connections)]
        assert wires
        assert all(wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for wire in wires)


def test_overload_is_refused_early_with_retry_after(start_server: Any, tone: Any, wait_until: Any) -> None:
    running = start_server(tone=tone, queue_size=1, max_streams=3)
    statuses: list[int] = []

    def speak() -> None:
        statuses.append(post(running, input="Hello there.", voice="gated").status_code)

    threads = [threading.Thread(target=speak) for _ in range(2)]
    threads[0].start()
    assert wait_until(lambda: len(tone.begun) == 1)
    threads[1].start()
    assert wait_until(lambda: 'nightingale_queue_depth{priority="first"} 1.0' in running.metrics())
    refused = post(running, input="Hello there.")
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "overloaded"
    assert int(refused.headers["retry-after"]) >= 1
    tone.gate.set()
    for thread in threads:
        thread.join()
    assert statuses == [200, 200]


def test_lists(server: Any) -> None:
    voices = httpx.get(server.url + "/v1/audio/voices").json()
    assert voices["voices"] == voices["data"]
    assert {"id": "silky", "name": "silky", "language": "en-us"}.items() <= voices["voices"][1].items()
    for path in ("/v1/models", "/v1/audio/models"):
        models = httpx.get(server.url + path).json()
        assert models["models"] == models["data"]
        assert {"device", "kernels"} <= models.keys()
        statuses = {entry["id"]: entry["status"] for entry in models["data"]}
        assert (statuses["tone"], statuses["absent"]) == ("ready", "absent")
        defaults = [entry["id"] for entry in models["data"] if entry["default"]]
        assert defaults == ["tone", "absent-translator", "absent-ear", "scribe"]
        kinds = {entry["id"]: entry["kind"] for entry in models["data"]}
        assert (kinds["tone"], kinds["shout"]) == ("text-to-speech", "translation")
    assert httpx.get(server.url + "/v1/models/t").json()["id"] == "tone"


def test_the_openai_sdk_waits_for_a_model_that_loads(start_server: Any) -> None:
    running = start_server()
    with openai.OpenAI(base_url=running.url + "/v1", api_key="none", max_retries=3) as client:
        audio = client.audio.speech.create(model="tone-two", voice="steady", input="Hi.", response_format="wav")
        assert audio.read()[:4] == b"RIFF"


def test_a_voice_that_two_models_have_is_the_default_model_s_unless_a_model_is_named(server: Any) -> None:
    """As Kokoro's af_heart and the bundled one, which has learned from it."""
    for body, spoke in (
        ({"voice": "steady"}, server.tone),
        ({"voice": "steady", "model": "tone-two"}, server.second),
        ({"voice": "tone-two/steady"}, server.second),
        ({"voice": "tone-two/steady", "model": "tone"}, server.second),
        ({"voice": "tone-two/"}, server.second),
        ({"voice": "steady", "input": "[voice:tone-two/steady] Hi."}, server.second),
        ({"voice": "silky", "input": "[voice:steady] Hi."}, server.tone),
    ):
        for model in (server.tone, server.second):
            model.computed.clear()
        asked = {"input": "Hi.", **body}
        reply = httpx.post(server.url + SPEECH, json=asked, headers={"prefer": "wait=60"}, timeout=90)
        assert (reply.status_code, bool(spoke.computed)) == (200, True), body
        assert len(server.tone.computed) + len(server.second.computed) == 1, body
    listed = [voice["id"] for voice in httpx.get(server.url + "/v1/audio/voices").json()["voices"]]
    assert len(listed) == len(set(listed))
    for voice, param in (("nobody/steady", 404), ("tone-two/nobody", 400), ("shout/steady", 400), ("/", 404)):
        assert post(server, input="Hi.", voice=voice).status_code == param, voice
