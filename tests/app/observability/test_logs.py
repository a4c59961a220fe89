"""Request ids from the wire to the log, and what log lines look like."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets.sync.client
from prometheus_client import REGISTRY

from app import request_context
from app.observability import logs, metrics
from models.timeline import MAX_SPANS, Stage, Timeline
from tests.processes import start_stand_ins
from tests.processes import wait_until as wait_for


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("app.x", logging.INFO, __file__, 1, message, arguments, None)
    if fields:
        made.fields = fields
    return made


@pytest.fixture
def in_request() -> Any:
    token = request_context.request_id.set("id-1")
    yield
    request_context.request_id.reset(token)


def test_a_line_for_people(in_request: None) -> None:
    line = logs.LineFormatter().format(record("served %s", "it", path="/a b", seconds=0.123456, none=None))
    assert line == 'INFO:     app.x: served it path="/a b" seconds=0.1235 [id-1]'


def test_nothing_that_clients_send_begins_a_line() -> None:
    line = logs.LineFormatter().format(record("request %s", "a\nINFO: forged", path="/\r\n\x1b[31mred\u2028"))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    entry = logs.JsonFormatter().format(record("a\nb", path="/\n"))
    assert len(entry.splitlines()) == 1
    assert json.loads(entry)["path"] == "/\n"


def test_a_json_line_has_everything(in_request: None) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        made = record("failed", model="tone", stages={"g2p": 0.1})
        made.exc_info = sys.exc_info()
    entry = json.loads(logs.JsonFormatter().format(made))
    assert entry.pop("time").endswith("Z")
    assert "ValueError: why" in entry.pop("exception")
    assert entry == {
        "level": "info",
        "logger": "app.x",
        "message": "failed",
        "request_id": "id-1",
        "model": "tone",
        "stages": {"g2p": 0.1},
    }


def test_outside_of_a_request_there_is_no_id() -> None:
    assert "request_id" not in json.loads(logs.JsonFormatter().format(record("hello")))
    assert logs.LineFormatter().format(record("hello")) == "INFO:     app.x: hello"


def speak(server: Any, id_: str, **fields: Any) -> httpx.Response:
    return httpx.post(server.url + "/v1/audio/speech", json=fields, headers={"x-request-id": id_})


def test_an_error_s_body_has_the_id_of_its_header(server: Any) -> None:
    for response in (speak(server, "mine-1", input=""), httpx.get(server.url + "/nowhere")):
        assert response.json()["error"]["request_id"] == response.headers["x-request-id"]
    assert speak(server, "mine-2", input="Hi.", voice="broken").json()["error"]["request_id"] == "mine-2"


def test_a_socket_has_its_id_in_the_handshake_in_ready_and_in_errors(server: Any) -> None:
    with websockets.sync.client.connect(server.websocket_url, additional_headers={"x-request-id": "ws-1"}) as socket:
        assert socket.response.headers["x-request-id"] == "ws-1"
        socket.send('{"type": "start"}')
        assert json.loads(socket.recv())["request_id"] == "ws-1"
        socket.send('{"type": "nonsense"}')
        assert json.loads(socket.recv())["error"]["request_id"] == "ws-1"


def test_exemplars_lead_to_requests_for_who_reads_them(server: Any, wait_until: Callable[..., bool]) -> None:
    speak(server, "exemplary-1", input="Hello world.")
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    # The client has the last byte before the server has counted.
    assert wait_until(lambda: "exemplary-1" in httpx.get(server.url + "/metrics", headers=accept).text)
    reply = httpx.get(server.url + "/metrics", headers=accept)
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.text.endswith("# EOF\n")
    assert '# {request_id="exemplary-1"}' in reply.text
    assert "exemplary-1" not in server.metrics()
    # An id that is too long for an exemplar must not fail the request.
    assert speak(server, "x" * 128, input="Hello world.").status_code == 200


def test_the_journal_knows_when_each_stage_ran(server: Any, wait_until: Callable[..., bool]) -> None:
    logs.recent.clear()
    reply = speak(server, "journal-1", input="Hello world. And good night.")
    assert reply.status_code == 200
    # The reply leaves before it is written down.
    assert wait_until(lambda: "journal-1" in [each.request_id for each in logs.recent])
    (entry,) = (each for each in logs.recent if each.request_id == "journal-1")
    assert (entry.model, entry.surface, entry.outcome, entry.streaming) == ("tone", "openai", "ok", True)
    assert {"queue", "g2p", "decoder", "audio_encode"} <= {span.stage for span in entry.spans}
    for span in entry.spans:
        assert 0 <= span.start <= span.start + span.seconds <= entry.total + 0.001
    for stage, seconds in entry.stages.items():
        assert sum(span.seconds for span in entry.spans if span.stage == stage) == pytest.approx(seconds, abs=1e-4)
    assert entry.rtf == pytest.approx(entry.total / entry.audio)


def test_the_journal_and_a_timeline_are_bounded() -> None:
    timeline = Timeline()
    for _ in range(10 * MAX_SPANS):
        timeline.add(Stage.G2P, 0.001)
    assert len(timeline.spans) == MAX_SPANS
    assert timeline.stages[Stage.G2P] == pytest.approx(10 * MAX_SPANS * 0.001)
    for _ in range(2 * logs.KEPT):
        metrics.record(timeline, metrics.Labels("bounded", "openai", False), "rejected", metrics.Playback())
    assert len(logs.recent) == logs.KEPT
    assert all(entry.model == "bounded" for entry in logs.recent)


def test_the_log_tells_of_requests_by_their_id(server: Any, caplog: Any, wait_until: Callable[..., bool]) -> None:
    caplog.set_level(logging.INFO, "app.requests")
    speak(server, "logged-1", input="Hello secret world.", voice="silky")

    def lines() -> list[dict[str, Any]]:
        # The last two: a request of an earlier test may have been late.
        return [entry.fields for entry in list(caplog.records) if entry.name == "app.requests"][-2:]

    assert wait_until(lambda: ["outcome" in line for line in lines()] == [True, False])
    served, request = lines()
    assert (served["model"], served["surface"], served["outcome"]) == ("tone", "openai", "ok")
    assert served["audio"] > 0
    assert request["path"] == "/v1/audio/speech"
    assert request["status"] == 200
    assert "secret" not in caplog.text
    assert "silky" not in str([entry.__dict__ for entry in caplog.records])


def test_errors_are_counted_and_logged_by_code_not_by_what_they_quote(server: Any, caplog: Any) -> None:
    def count(code: str) -> float:
        return REGISTRY.get_sample_value("nightingale_errors_total", {"code": code}) or 0.0

    caplog.set_level(logging.INFO, "app.requests")
    before = {code: count(code) for code in ("unknown_voice", "model_failed", "protocol_error", "not_found")}
    speak(server, "e-1", input="Hi.", voice="nobody-quoted")
    speak(server, "e-2", input="Hi.", voice="broken")
    httpx.get(server.url + "/nowhere")
    with websockets.sync.client.connect(server.websocket_url) as socket:
        socket.send('{"type": "nonsense"}')
        socket.recv()
    assert {code: count(code) - number for code, number in before.items()} == dict.fromkeys(before, 1.0)
    told = [entry for entry in caplog.records if entry.message == "answered with an error"]
    assert [(entry.fields["code"], entry.levelname) for entry in told] == [
        ("unknown_voice", "INFO"),
        ("model_failed", "WARNING"),
        ("not_found", "INFO"),
        ("protocol_error", "INFO"),
    ]
    assert "nobody-quoted" not in caplog.text


def test_every_line_of_a_server_s_log_is_an_object(tmp_path: Path) -> None:
    """A process of its own: what uvicorn and the worker write goes the same way."""
    with start_stand_ins(tmp_path, NIGHTINGALE_LOG_FORMAT="json") as process:
        httpx.get(process.url + "/nowhere?secret=1", headers={"x-request-id": "process-1"})
        wait_for(lambda: "app.engine.model_loader" in process.log.read_text())
        process.stop()
    log = process.log
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    (request,) = (entry for entry in entries if entry["message"] == "request")
    assert (request["request_id"], request["path"], request["status"]) == ("process-1", "/nowhere", 404)
    assert {"app.requests", "app.engine.model_loader", "uvicorn.error"} <= {entry["logger"] for entry in entries}
    assert "uvicorn.access" not in {entry["logger"] for entry in entries}
    assert "secret" not in log.read_text()
