"""A request for a model that is here and not loaded: it begins the load, and waits for it if it asks to."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from app.config import Settings
from app.engine.admission import Admission
from app.engine.catalog import Catalog
from app.engine.model_loader import ModelLoads, ModelState, ModelStatus
from app.engine.worker import ModelWorker
from app.errors import DrainingError
from tests.app.server.middleware import keys

STEPS = 3


@pytest.fixture
def slow(start_server: Any) -> Any:
    """Start servers whose model `tone-two` is warmed step by step, as its `warm_gate` is released."""
    begun: list[Any] = []

    def begin(**settings: object) -> Any:
        begun.append(start_server(**settings))
        begun[-1].second.warm_gate = threading.Semaphore(0)
        return begun[-1]

    yield begin
    for each in begun:
        each.second.warm_gate.release(STEPS)


@pytest.fixture
def running(slow: Any) -> Any:
    return slow()


def speak(running: Any, prefer: str = "", **body: object) -> httpx.Response:
    url = running.url + "/v1/audio/speech"
    headers = {"prefer": prefer} if prefer else {}
    return httpx.post(url, json={"input": "Hi.", "model": "tone-two"} | body, headers=headers, timeout=60)


def state(running: Any) -> str:
    listed = httpx.get(running.url + "/v1/models").json()["data"]
    return str(next(entry["status"] for entry in listed if entry["id"] == "tone-two"))


def in_thread(pool: ThreadPoolExecutor, running: Any) -> Future[httpx.Response]:
    return pool.submit(speak, running, "wait")


def test_a_request_that_prefers_nothing_waits_for_a_model_that_was_not_loaded(running: Any, wait_until: Any) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(speak, running)
        assert wait_until(lambda: "nightingale_model_load_waits 1.0" in running.metrics())
        running.second.warm_gate.release(STEPS)
        assert answer.result(60).status_code == 200
    assert "preference-applied" not in answer.result().headers


def test_voices_of_a_model_load_none(start_server: Any, wait_until: Any) -> None:
    running = start_server(idle_unload_seconds=0.2)
    for _ in ("never loaded", "unloaded"):
        listed = httpx.get(running.url + "/v1/audio/voices?model=tone-two").json()["voices"]
        one = httpx.get(f"{running.url}/v1/audio/voices/{listed[0]['id']}?model=tone-two").json()
        assert (one, state(running)) == (listed[0], "available")
        assert speak(running).status_code == 200
        assert wait_until(lambda: state(running) == "available")


@pytest.mark.parametrize(("prefer", "applied"), [("wait", "wait=30"), ("respond-async, Wait=7; a=b", "wait=7")])
def test_the_wait_that_was_applied_is_told(start_server: Any, prefer: str, applied: str) -> None:
    answer = speak(start_server(), prefer)
    assert (answer.status_code, answer.headers["preference-applied"]) == (200, applied)


def test_a_wait_of_no_seconds_is_none(running: Any) -> None:
    for _ in range(2):  # the second one finds the load under way
        refused = speak(running, "wait=0")
        assert (refused.status_code, refused.headers["preference-applied"]) == (503, "wait=0")


def test_events_tell_how_far_the_load_is(running: Any) -> None:
    body = {"input": "Hi.", "model": "tone-two", "stream_format": "sse"}
    headers = {"prefer": "wait"}
    with httpx.stream("POST", running.url + "/v1/audio/speech", json=body, headers=headers, timeout=60) as reply:
        assert (reply.status_code, reply.headers["preference-applied"]) == (200, "wait=30")
        lines = (json.loads(line.removeprefix("data: ")) for line in reply.iter_lines() if line)
        assert next(lines) == {"type": "model.loading", "model": "tone-two", "done": 0, "total": None}
        running.second.warm_gate.release()
        assert next(lines) == {"type": "model.loading", "model": "tone-two", "done": 1, "total": STEPS}
        running.second.warm_gate.release(STEPS)
        kinds = [event["type"] for event in lines]
    assert kinds[-2:] == ["speech.audio.delta", "speech.audio.done"]


def test_events_tell_a_load_that_fails(start_server: Any) -> None:
    body = {"input": "Hi.", "model": "corrupt", "stream_format": "sse"}
    # The server breaks the connection, as after every error within a stream.
    with pytest.raises(httpx.RemoteProtocolError):
        text = b""
        with httpx.stream(
            "POST", start_server().url + "/v1/audio/speech", json=body, headers={"prefer": "wait"}, timeout=60
        ) as reply:
            for part in reply.iter_raw():
                text += part
    assert b'"code": "model_failed"' in text and b"secret place" not in text


def test_requests_wait_for_the_load(running: Any, wait_until: Any) -> None:
    with ThreadPoolExecutor() as pool:
        answers = [in_thread(pool, running) for _ in range(3)]
        assert wait_until(lambda: state(running) == "loading")
        answers.append(pool.submit(speak, running))
        assert wait_until(lambda: "nightingale_model_load_waits 4.0" in running.metrics())
        assert not any(answer.done() for answer in answers)
        running.second.warm_gate.release(STEPS)
        assert [answer.result(60).status_code for answer in answers] == [200] * 4


def test_a_load_that_takes_too_long_is_told_with_its_progress(slow: Any, wait_until: Any) -> None:
    running = slow(queue_seconds=0.5)
    running.second.warm_gate.release()
    # The first request may be refused before the first step is done.
    assert wait_until(lambda: "1 of 3" in speak(running, "wait").json()["error"]["message"])
    refused = speak(running, "wait")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_loading")
    assert "1 of 3" in refused.json()["error"]["message"]
    assert refused.headers["retry-after"]


def test_no_more_wait_than_may_queue(slow: Any, wait_until: Any) -> None:
    running = slow(queue_size=1)
    with ThreadPoolExecutor() as pool:
        answers = [in_thread(pool, running) for _ in range(2)]
        assert wait_until(lambda: any(answer.done() for answer in answers))
        # Nothing is loaded: the other one waits until it is.
        refused, waiting = sorted(answers, key=lambda answer: not answer.done())
        code = refused.result(60).json()["error"]["code"]
        assert (refused.result(60).status_code, code, waiting.done()) == (503, "model_loading", False)
        running.second.warm_gate.release(STEPS)
        assert waiting.result(60).status_code == 200


def test_a_key_does_not_take_all_places_to_wait(slow: Any, tmp_path: Path, wait_until: Any) -> None:
    (tmp_path / "keys.toml").write_text(f'ada = "{keys.ADA}"\nbob = "{keys.BOB}"\n')
    running = slow(queue_size=4, keys_file=str(tmp_path / "keys.toml"))

    def ask(key: str) -> int:
        headers = {"authorization": f"Bearer {key}"}
        body = {"input": "Hi.", "model": "tone-two"}
        return httpx.post(running.url + "/v1/audio/speech", json=body, headers=headers, timeout=60).status_code

    with ThreadPoolExecutor() as pool:
        greedy = [pool.submit(ask, keys.BOB) for _ in range(3)]
        assert wait_until(lambda: any(each.done() for each in greedy))
        other = pool.submit(ask, keys.ADA)
        assert wait_until(lambda: running.second.warm_gate.release() or other.done())
        assert other.result(60) == 200
        assert sorted(each.result(60) for each in greedy) == [200, 200, 503]


def test_who_leaves_while_it_loads_gives_the_slot_back(running: Any, wait_until: Any, leave: Any) -> None:
    body = {"input": "Hi.", "model": "tone-two"}
    assert int(speak(running, "wait=0").headers["retry-after"]) >= 1
    leave(running.url + "/v1/audio/speech", body, lambda: "load_waits 1.0" in running.metrics())
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    assert state(running) == "loading"


def test_a_websocket_is_told_how_far_it_is(running: Any) -> None:
    with connect(running.websocket_url) as socket:
        socket.send(json.dumps({"type": "start", "model": "tone-two"}))
        told = [json.loads(socket.recv(timeout=60))]
        for _ in range(STEPS - 1):
            running.second.warm_gate.release()
            told.append(json.loads(socket.recv(timeout=60)))
        running.second.warm_gate.release()
        while (ready := json.loads(socket.recv(timeout=60)))["type"] == "loading":
            pass
        assert ready["type"] == "ready"
    assert [(event["type"], event["model"], event["done"]) for event in told] == [
        ("loading", "tone-two", done) for done in range(STEPS)
    ]
    assert [event["total"] for event in told] == [None, STEPS, STEPS]


def test_a_socket_that_is_closed_while_it_loads_gives_the_slot_back(running: Any, wait_until: Any) -> None:
    with connect(running.websocket_url) as socket:
        socket.send(json.dumps({"type": "start", "model": "tone-two"}))
        assert json.loads(socket.recv(timeout=60))["type"] == "loading"
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())


def test_a_model_that_cannot_be_loaded_ends_the_wait(start_server: Any) -> None:
    answer = speak(start_server(), "wait", model="corrupt")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_failed")


async def test_nobody_waits_for_a_server_that_goes_down() -> None:
    loading = ModelState("slow", status=ModelStatus.LOADING)
    admission = Admission()
    catalog = Catalog(Settings())
    loads = ModelLoads(catalog, ModelWorker(catalog.load), admission, most=10, seconds=60)
    waiting = asyncio.create_task(loads.wait(loading))
    await asyncio.sleep(0.1)
    admission.drain()
    with pytest.raises(DrainingError):
        await asyncio.wait_for(waiting, 10)
