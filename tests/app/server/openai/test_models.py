"""Loading and unloading models of a server, over a real socket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from app.application import create_app
from app.config import Settings, SettingsError
from tests.app.conftest import Running, ToneCatalog, start, stop
from tests.app.server.middleware.keys import ADA, BOB, HASHED
from tests.app.server.streams import session

WAIT = {"prefer": "wait"}


def entry(running: Any, name: str = "tone-two", **headers: str) -> dict[str, Any]:
    answer = httpx.get(f"{running.url}/v1/models/{name}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def post(running: Any, action: str, name: str = "tone-two", headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{running.url}/v1/models/{name}/{action}", headers=headers or {}, timeout=60)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def speak(running: Any, headers: dict[str, str] | None = None, **body: object) -> httpx.Response:
    url = running.url + "/v1/audio/speech"
    return httpx.post(url, json={"input": "Hi.", "model": "tone-two"} | body, headers=headers or {}, timeout=60)


def metric(running: Any, line: str) -> bool:
    return line in running.metrics().splitlines()


REQUESTED = 'nightingale_model_unloads_total{model="tone-two",reason="request"}'
IDLE = 'nightingale_model_unloads_total{model="tone-two",reason="idle"}'


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    running = start(Settings(), ToneCatalog())
    yield running
    stop(running)


@pytest.fixture
def loads(shared: Running) -> Running:
    """A server of this file, with its default model alone."""
    shared.second.warm_gate = None
    shared.second.begun.clear()
    shared.second.gate.clear()
    post(shared, "load", "tone", WAIT)
    for name in ("tone-two", "corrupt"):
        post(shared, "unload", name, WAIT)
    return shared


def test_a_model_comes_and_goes(loads: Running) -> None:
    running = loads
    before = entry(running)
    assert (before["status"], before["languages"], before["progress"]) == ("available", None, None)
    answer = post(running, "load", headers=WAIT)
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert answer.headers["preference-applied"] == "wait=30"
    assert metric(running, "nightingale_models_loaded 2.0")
    unloads = running.count(REQUESTED)
    answer = post(running, "unload", headers=WAIT)
    assert (answer.status_code, answer.json()["status"]) == (200, "available")
    assert metric(running, "nightingale_models_loaded 1.0")
    assert running.count(REQUESTED) == unloads + 1
    assert entry(running)["languages"], "it stays known"
    assert post(running, "unload", headers=WAIT).status_code == 200, "twice is no error"


def test_without_wait_the_answer_comes_at_once(loads: Running, wait_until: Any) -> None:
    running = loads
    running.second.warm_gate = threading.Semaphore(0)
    try:
        answers = [post(running, "load") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [202, 202]
        running.second.warm_gate.release()
        assert wait_until(lambda: (entry(running)["progress"] or {}).get("done") == 1)
        progress = entry(running)["progress"]
        assert (progress["step"], progress["name"], progress["total"]) == ("warm", "bucket 0", 3)
        assert progress["seconds"] > 0
        assert post(running, "unload").status_code == 202, "a load is broken off"
    finally:
        running.second.warm_gate.release(3)
    assert wait_until(lambda: entry(running)["status"] == "available")


def test_a_socket_holds_its_model_while_it_is_silent(start_server: Any, wait_until: Any) -> None:
    running = start_server(idle_unload_seconds=0.3)
    unloads = running.count(IDLE)
    with connect(running.websocket_url) as socket:
        socket.send(json.dumps({"type": "start", "model": "tone-two"}))
        while json.loads(socket.recv(timeout=60))["type"] != "ready":
            pass
        assert wait_until(lambda: entry(running, "tone")["status"] == "available")
        time.sleep(0.5)
        held = entry(running)
        assert (held["status"], held["requests"], held["idle_unload_seconds"]) == ("ready", 1, 0.3)
    assert wait_until(lambda: entry(running)["status"] == "available")
    assert running.count(IDLE) == unloads + 1


def test_a_server_stays_ready_without_its_default_model(loads: Running) -> None:
    running = loads
    assert post(running, "unload", "tone", WAIT).status_code == 200
    ready = httpx.get(running.url + "/readyz")
    assert (ready.status_code, ready.json()["models"][0]["status"]) == (200, "idle")
    assert metric(running, "nightingale_ready 1.0")
    assert speak(running, model=None).status_code == 200


def test_the_limits_of_single_models_are_their_own(start_server: Any, wait_until: Any) -> None:
    running = start_server(idle_unload_seconds={"default": 0.2, "t": 0})
    assert speak(running, WAIT).status_code == 200
    assert wait_until(lambda: entry(running)["status"] == "available")
    assert (entry(running, "tone")["status"], entry(running, "tone")["idle_unload_seconds"]) == ("ready", 0)


def test_a_budget_that_is_in_use_is_told(start_server: Any, wait_until: Any) -> None:
    running = start_server(memory_budget="1.5 MB")
    listed = httpx.get(running.url + "/v1/models").json()
    assert (listed["memory_used"], listed["memory_budget"]) == (1_000_000, 1_500_000)
    with ThreadPoolExecutor() as pool:
        with session(running):
            refused = speak(running, {"prefer": "wait=1"})
            assert code(refused) == (503, "model_memory")
            assert "(tone)" in refused.json()["error"]["message"] and refused.headers["retry-after"] == "5"
            waiting = pool.submit(speak, running, WAIT)
            assert wait_until(lambda: metric(running, "nightingale_model_load_waits 1.0"))
            assert not waiting.done()
        assert waiting.result(60).status_code == 200


def test_a_model_beyond_the_budget_is_refused(start_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToneCatalog, "size", lambda self, name: 1 if name == "tone" else 2_000_000)
    running = start_server(memory_budget=1_000_000)
    for answer in (speak(running, WAIT), post(running, "load", headers=WAIT)):
        assert code(answer) == (503, "model_too_large")
        assert "2.0 MB" in answer.json()["error"]["message"] and "retry-after" not in answer.headers
    assert entry(running)["status"] == "failed"


def test_a_broken_file_is_told_and_tried_again(loads: Running) -> None:
    running = loads
    for _ in range(2):
        answer = post(running, "load", "corrupt", WAIT)
        assert code(answer) == (500, "model_failed") and "secret place" not in answer.text
    found = entry(running, "corrupt")
    assert found["status"] == "failed" and "array 'a'" in found["error"]
    answer = post(running, "unload", "corrupt")
    assert (answer.status_code, answer.json()["status"], answer.json()["error"]) == (200, "available", None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("absent", (503, "model_not_installed")),
        ("nothing", (404, "model_not_found")),
        ("a%00b", (404, "model_not_found")),
    ],
)
def test_models_that_cannot_be_loaded(server: Any, name: str, expected: tuple[int, str]) -> None:
    assert code(post(server, "load", name)) == expected


def test_who_leaves_while_a_model_loads_waits_no_more(loads: Running, wait_until: Any, leave: Any) -> None:
    running = loads
    running.second.warm_gate = threading.Semaphore(0)
    try:
        url = running.url + "/v1/models/tone-two/load"
        kind = "application/json\r\nPrefer: wait"
        leave(url, {}, lambda: metric(running, "nightingale_model_load_waits 1.0"), kind)
        assert wait_until(lambda: metric(running, "nightingale_model_load_waits 0.0"))
    finally:
        running.second.warm_gate.release(3)


@pytest.fixture
def keyed(start_server: Any, tmp_path: Path) -> Any:
    file = tmp_path / "keys.toml"
    file.write_text(f'bob = "{HASHED}"\n[ada]\nkey = "{ADA}"\nadmin = true\n')
    return start_server(keys_file=file)


def test_an_admin_key_is_needed(keyed: Any) -> None:
    for action in ("load", "unload"):
        assert code(post(keyed, action, headers={"authorization": f"Bearer {BOB}"})) == (403, "permission_denied")
        assert post(keyed, action).status_code == 401
        answer = post(keyed, action, headers={"authorization": f"Bearer {ADA}"} | WAIT)
        assert answer.status_code == 200, answer.text


def test_a_server_for_others_without_keys_lets_nobody(start_server: Any) -> None:
    running = start_server(host="0.0.0.0", allow_public=True)  # noqa: S104
    for action in ("load", "unload"):
        answer = post(running, action)
        assert code(answer) == (403, "permission_denied") and "admin" in answer.json()["error"]["message"]


def test_a_limit_of_a_model_that_does_not_exist_is_refused() -> None:
    settings = Settings(idle_unload_seconds={"nothing": 1})
    with pytest.raises(SettingsError, match=r"idle_unload_seconds.*nothing"):
        create_app(settings, ToneCatalog())  # type: ignore[arg-type]
