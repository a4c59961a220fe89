"""Quotas, predicted load and deadlines, as clients of a server on a socket meet them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import openai
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from app.engine.jobs import CancelToken, Results
from app.errors import OverloadedError
from models.timeline import Timeline
from tests.app.standins import IdleJob

ADA = "ada-0123456789-0123456789"
BOB = "bob-0123456789-0123456789"
TWENTY = "Exactly twenty long."


def speak(server: Any, key: str = "", **body: object) -> httpx.Response:
    body = {"input": TWENTY, "response_format": "pcm"} | body
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.post(server.url + "/v1/audio/speech", json=body, headers=headers, timeout=60)


def keyed(start_server: Any, tmp_path: Path, ada: str, **settings: object) -> Any:
    """A server that Ada, with the quota `ada`, and Bob, with none, have keys of."""
    path = tmp_path / "keys.toml"
    path.write_text(f'bob = "{BOB}"\n[ada]\nkey = "{ADA}"\n{ada}\n')
    return start_server(keys_file=str(path), open_metrics=True, **settings)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def receive(socket: ClientConnection) -> dict[str, Any]:
    """The next message that is no audio and announces none."""
    while True:
        message = socket.recv(timeout=60)
        if isinstance(message, str) and (found := dict(json.loads(message)))["type"] != "chunk":
            return found


def say(socket: ClientConnection, text: str) -> dict[str, Any]:
    socket.send(json.dumps({"type": "text", "text": text}))
    socket.send(json.dumps({"type": "flush"}))
    return receive(socket)


@pytest.mark.usefixtures("quota_clock")
def test_characters_a_minute(start_server: Any, tmp_path: Path, wait_until: Any) -> None:
    running = keyed(start_server, tmp_path, "characters_per_minute = 40")
    assert speak(running, ADA).status_code == 200
    assert speak(running, ADA).status_code == 200
    refused = speak(running, ADA)
    assert code(refused) == (429, "rate_limit_exceeded")
    assert refused.json()["error"]["type"] == "rate_limit_error"
    # Twenty characters at forty a minute.
    assert (refused.headers["retry-after"], refused.headers["retry-after-ms"]) == ("30", "30000")
    assert speak(running, BOB).status_code == 200
    assert running.tone.begun == [TWENTY] * 3
    assert wait_until(lambda: 'nightingale_requests_total{model="tone",outcome="rejected"' in running.metrics())


@pytest.mark.usefixtures("quota_clock")
def test_what_is_translated_counts_too(start_server: Any, tmp_path: Path, wait_until: Any) -> None:
    running = keyed(start_server, tmp_path, "characters_per_minute = 40", translator="shout")
    headers = {"authorization": f"Bearer {ADA}"}
    body = {"text": [TWENTY, TWENTY], "target": "fr", "source": "en"}
    assert httpx.post(running.url + "/v1/translate", json=body, headers=headers).status_code == 200
    refused = httpx.post(running.url + "/v1/translate", json=body, headers=headers)
    assert code(refused) == (429, "rate_limit_exceeded")
    assert refused.headers["retry-after-ms"]
    assert code(speak(running, ADA)) == (429, "rate_limit_exceeded")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())


def test_a_socket_goes_on_after_a_set_over_the_quota(start_server: Any, tmp_path: Path, quota_clock: Any) -> None:
    # 40 characters a second.
    running = keyed(start_server, tmp_path, "characters_per_minute = 2400")
    with connect(running.websocket_url, additional_headers={"xi-api-key": ADA}) as socket:
        socket.send(json.dumps({"type": "start"}))
        assert receive(socket)["type"] == "ready"
        assert say(socket, " ".join([TWENTY] * 113))["type"] == "done"
        assert say(socket, TWENTY)["type"] == "done"
        refused = say(socket, TWENTY)
        assert (refused["type"], refused["error"]["code"]) == ("error", "rate_limit_exceeded")
        assert not refused["fatal"]
        quota_clock.now += 0.5
        assert say(socket, TWENTY)["type"] == "done"


@pytest.mark.usefixtures("quota_clock")
def test_what_is_received_counts_also_where_it_is_never_spoken(start_server: Any, tmp_path: Path) -> None:
    running = keyed(start_server, tmp_path, "characters_per_minute = 200")
    with connect(running.websocket_url, additional_headers={"xi-api-key": ADA}) as socket:
        socket.send(json.dumps({"type": "start"}))
        assert receive(socket)["type"] == "ready"
        for _ in range(10):
            socket.send(json.dumps({"type": "text", "text": "\n" * 20}))
            socket.send(json.dumps({"type": "cancel"}))
            assert receive(socket)["cancelled"]
        assert say(socket, "Hello there, you.")["error"]["code"] == "rate_limit_exceeded"
        # The session goes on, and so does the next set.
        socket.send(json.dumps({"type": "cancel"}))
        assert receive(socket)["cancelled"]
    assert running.tone.begun == []
    assert code(speak(running, ADA)) == (429, "rate_limit_exceeded")


@pytest.mark.usefixtures("quota_clock")
@pytest.mark.parametrize("path", ["stream-input", "multi-stream-input"])
def test_eleven_s_sockets_count_what_is_received(start_server: Any, tmp_path: Path, path: str) -> None:
    running = keyed(start_server, tmp_path, "characters_per_minute = 40")
    url = running.websocket_url.replace("/v1/audio/stream", f"/v1/text-to-speech/steady/{path}")
    with connect(url, additional_headers={"xi-api-key": ADA}) as socket:
        for text in (TWENTY, TWENTY, TWENTY):
            socket.send(json.dumps({"text": text + " "}))
        while "error" not in (message := json.loads(socket.recv(timeout=60))):
            pass
        assert message["error"] == "quota_exceeded" or "characters a minute" in message["message"]


def test_streams_at_once(start_server: Any, tmp_path: Path, wait_until: Any) -> None:
    running = keyed(start_server, tmp_path, "streams = 1")
    with connect(running.websocket_url, additional_headers={"xi-api-key": ADA}) as first:
        first.send(json.dumps({"type": "start"}))
        assert receive(first)["type"] == "ready"
        refused = speak(running, ADA)
        assert code(refused) == (429, "rate_limit_exceeded")
        assert refused.headers["retry-after"] == "1"
        assert speak(running, BOB).status_code == 200
        with connect(running.websocket_url, additional_headers={"xi-api-key": ADA}) as second:
            assert receive(second)["error"]["code"] == "rate_limit_exceeded"
            with pytest.raises(ConnectionClosed):
                second.recv(timeout=60)
            assert second.close_code == 1013
    assert wait_until(lambda: speak(running, ADA).status_code == 200)


def test_openai_s_client_waits_as_long_as_it_is_told(start_server: Any, tmp_path: Path, quota_clock: Any) -> None:
    # Forty characters a second: parts of a second are missing, which only `retry-after-ms` can say.
    running = keyed(start_server, tmp_path, "characters_per_minute = 2400")
    assert speak(running, ADA, input=" ".join([TWENTY] * 110)).status_code == 200
    told: list[httpx.Headers] = []

    def note(response: httpx.Response) -> None:
        if response.status_code == 429:
            told.append(response.headers)

    waits: list[float] = []
    http = openai.DefaultHttpxClient(event_hooks={"response": [note]})
    with openai.OpenAI(base_url=running.url + "/v1", api_key=ADA, max_retries=1, http_client=http) as client:
        computed = client._calculate_retry_timeout

        def noting(*arguments: Any, **named: Any) -> float:
            waits.append(computed(*arguments, **named))
            quota_clock.now += waits[-1]
            return waits[-1]

        client._calculate_retry_timeout = noting  # type: ignore[method-assign]
        for _ in range(2):  # the second is refused, and allowed when it is sent again
            audio = client.audio.speech.create(model="tone", voice="steady", input=TWENTY * 4, response_format="wav")
            assert audio.read()[:4] == b"RIFF"
        assert len(told) == 1
        hasty = client.with_options(max_retries=0)
        with pytest.raises(openai.RateLimitError) as caught:
            hasty.audio.speech.create(model="tone", voice="steady", input=TWENTY * 4)
        assert caught.value.code == "rate_limit_exceeded"
    assert waits == [int(told[0]["retry-after-ms"]) / 1000]
    assert 0 < waits[0] <= int(told[0]["retry-after"])


def load(running: Any) -> float:
    line = next(line for line in running.metrics().splitlines() if line.startswith("nightingale_predicted_load"))
    return float(line.split()[1])


def test_a_stream_that_would_make_others_stutter_is_refused(start_server: Any, tone: Any, wait_until: Any) -> None:
    running = start_server(tone=tone, max_load=1.5)
    # One second of work for 0.3 to 0.5 seconds of audio: slower than real time, as is measured here.
    assert speak(running, voice="slow").status_code == 200
    assert wait_until(lambda: load(running) == 0.0)
    sizes: list[int] = []
    thread = threading.Thread(target=lambda: sizes.append(len(speak(running, voice="gated").content)))
    thread.start()
    assert wait_until(lambda: load(running) > 1.5)
    refused = speak(running)
    assert code(refused) == (503, "overloaded")
    assert refused.headers["retry-after"] and refused.headers["retry-after-ms"]
    with connect(running.websocket_url) as socket:
        socket.send(json.dumps({"type": "start"}))
        assert receive(socket)["error"]["code"] == "overloaded"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)
        assert socket.close_code == 1013
    tone.gate.set()
    thread.join()
    assert sizes[0] > 0
    assert wait_until(lambda: load(running) == 0.0)
    assert speak(running).status_code == 200


def test_a_set_of_an_open_socket_is_refused_too(start_server: Any, tone: Any, wait_until: Any) -> None:
    running = start_server(tone=tone, max_load=1.5)
    assert speak(running, voice="slow").status_code == 200
    with connect(running.websocket_url) as socket:
        socket.send(json.dumps({"type": "start"}))
        assert receive(socket)["type"] == "ready"
        # A socket that is silent needs nothing.
        assert wait_until(lambda: load(running) == 0.0)
        thread = threading.Thread(target=speak, args=(running,), kwargs={"voice": "gated"})
        thread.start()
        assert wait_until(lambda: load(running) > 1.5)
        answer = say(socket, TWENTY)
        assert answer["error"]["code"] == "overloaded"
        assert not answer["fatal"]
        tone.gate.set()
        thread.join()
        assert wait_until(lambda: load(running) == 0.0)
        assert say(socket, TWENTY)["type"] == "done"


def test_who_waits_too_long_for_a_turn_is_told(start_server: Any, tone: Any, wait_until: Any) -> None:
    running = start_server(tone=tone, queue_seconds=0.4)
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(speak(running, voice="gated").status_code))
    thread.start()
    assert wait_until(lambda: len(tone.begun) == 1)
    start = time.monotonic()
    refused = speak(running, input="Late.")
    # At the deadline, though the thread is still taken; what had its turn may take as long as it likes.
    assert time.monotonic() - start > 0.3
    assert code(refused) == (503, "overloaded")
    assert "0.4 seconds" in refused.json()["error"]["message"]
    assert refused.headers["retry-after"]
    assert 'nightingale_queue_depth{priority="first"} 0.0' in running.metrics()
    tone.gate.set()
    thread.join()
    assert statuses == [200]
    assert speak(running).status_code == 200
    assert "Late." not in tone.begun


@pytest.mark.parametrize("waiting", [True, False])
async def test_the_deadline_is_for_the_first_turn_alone(waiting: bool) -> None:
    # A worker whose job has had its turn, or has not.
    owner = Mock(on_late=Mock(return_value=waiting))
    job = IdleJob("m", Timeline(), CancelToken())
    asyncio.get_running_loop().call_later(0.2, job.results.put_nowait, "one")
    asyncio.get_running_loop().call_later(0.4, job.results.put_nowait, None)
    with pytest.raises(OverloadedError) if waiting else nullcontext():
        assert [item async for item in Results(owner, job, 0.05)] == ["one"]
    owner.on_late.assert_called_once()
