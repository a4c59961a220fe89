"""A request for a model that is here and not loaded yet: it waits for the load."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
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

STEPS = 3


@pytest.fixture
def slow(start_server: Any) -> Any:
    """Start a server whose model `tone-two` is warmed step by step, as its `warm_gate` is released."""

    def begin(**settings: object) -> Any:
        running = start_server(**settings)
        running.second.warm_gate = threading.Semaphore(0)
        return running

    running: list[Any] = []

    def keep(**settings: object) -> Any:
        running.append(begin(**settings))
        return running[-1]

    yield keep
    for each in running:
        each.second.warm_gate.release(STEPS)


def speak(running: Any, **body: object) -> httpx.Response:
    url = running.url + "/v1/audio/speech"
    return httpx.post(url, json={"input": "Hi.", "model": "tone-two"} | body, timeout=60)


def state(running: Any) -> str:
    listed = httpx.get(running.url + "/v1/models").json()["data"]
    return str(next(entry["status"] for entry in listed if entry["id"] == "tone-two"))


def in_thread(pool: ThreadPoolExecutor, running: Any) -> Future[httpx.Response]:
    return pool.submit(speak, running)


def test_the_first_request_waits_for_the_load(slow: Any, wait_until: Any) -> None:
    running = slow()
    with ThreadPoolExecutor() as pool:
        answers = [in_thread(pool, running) for _ in range(3)]
        assert wait_until(lambda: state(running) == "loading")
        assert not any(answer.done() for answer in answers)
        running.second.warm_gate.release(STEPS)
        assert [answer.result(60).status_code for answer in answers] == [200] * 3


def test_a_load_that_takes_too_long_is_told_with_its_progress(slow: Any, wait_until: Any) -> None:
    running = slow(queue_seconds=0.5)
    running.second.warm_gate.release()
    # The first request may be refused before the first step is done.
    assert wait_until(lambda: "1 of 3" in speak(running).json()["error"]["message"])
    refused = speak(running)
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


def test_who_leaves_while_it_loads_gives_the_slot_back(slow: Any, wait_until: Any, leave: Any) -> None:
    running = slow()
    body = {"input": "Hi.", "model": "tone-two"}
    leave(running.url + "/v1/audio/speech", body, lambda: state(running) == "loading")
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())
    assert state(running) == "loading"


def test_a_websocket_is_told_how_far_it_is(slow: Any) -> None:
    running = slow()
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


def test_a_socket_that_is_closed_while_it_loads_gives_the_slot_back(slow: Any, wait_until: Any) -> None:
    running = slow()
    with connect(running.websocket_url) as socket:
        socket.send(json.dumps({"type": "start", "model": "tone-two"}))
        assert json.loads(socket.recv(timeout=60))["type"] == "loading"
    assert wait_until(lambda: "nightingale_active_streams 0.0" in running.metrics())


def test_a_model_that_cannot_be_loaded_ends_the_wait(start_server: Any) -> None:
    answer = speak(start_server(), model="corrupt")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_failed")


def test_nobody_waits_for_a_server_that_goes_down() -> None:
    loading = ModelState("slow", status=ModelStatus.LOADING)
    admission = Admission()
    catalog = Catalog(Settings())
    loads = ModelLoads(catalog, ModelWorker(catalog.load), admission, most=10, seconds=60)

    async def run() -> None:
        waiting = asyncio.create_task(loads.wait(loading))
        await asyncio.sleep(0.1)
        admission.drain()
        with pytest.raises(DrainingError):
            await asyncio.wait_for(waiting, 10)

    asyncio.run(run())
