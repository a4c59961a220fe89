"""Traces as a collector gets them, over OTLP, from a real server."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.observability import logs, tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Handler(BaseHTTPRequestHandler):
    """Notes the spans that a collector is sent."""

    server: Collector

    def do_POST(self) -> None:
        message = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in message.resource_spans:
            found = {item.key: item.value.string_value for item in resource.resource.attributes}
            self.server.resources.append(found)
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


class Collector(ThreadingHTTPServer):
    """Keeps the spans that it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1/traces"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(tracing, "FLUSH_MILLISECONDS", 60_000)
    with Collector() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


def test_a_request_is_a_span_with_its_stages_inside(
    start_server: Callable[..., Any], collector: Collector, wait_until: Callable[..., bool]
) -> None:
    server = start_server(otlp_endpoint=collector.url)
    reply = httpx.post(
        server.url + "/v1/audio/speech",
        json={"input": "Hello world. And good night."},
        headers={"x-request-id": "traced-1", "traceparent": f"00-{TRACE}-{PARENT}-01"},
    )
    assert reply.status_code == 200
    broken = httpx.post(server.url + "/v1/audio/speech", json={"input": "Hi.", "voice": "broken"})
    assert broken.status_code == 500
    assert wait_until(lambda: len([span for span in collector.spans if span.name == "openai"]) == 2)
    root, failed = (span for span in collector.spans if span.name == "openai")
    assert root.trace_id.hex() == TRACE
    assert root.parent_span_id.hex() == PARENT
    assert failed.trace_id != root.trace_id
    assert (root.status.code, failed.status.code) == (0, 2)
    found = attributes(root)
    assert found["nightingale.request_id"] == "traced-1"
    assert found["nightingale.model"] == "tone"
    assert found["nightingale.outcome"] == "ok"
    assert [event.name for event in root.events] == ["first audio"]
    inside = [span for span in collector.spans if span.parent_span_id == root.span_id]
    assert {"queue", "g2p", "decoder", "audio_encode"} <= {span.name for span in inside}
    for span in inside:
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= root.end_time_unix_nano
    # The trace and the metrics are fed by one record.
    (entry,) = (each for each in logs.recent if each.request_id == "traced-1")
    for stage, seconds in entry.stages.items():
        traced = sum(span.end_time_unix_nano - span.start_time_unix_nano for span in inside if span.name == stage)
        assert traced / 1e9 == pytest.approx(seconds, abs=1e-4)
    assert collector.resources[0]["service.name"] == "nightingale"
    # No text, no voice.
    assert "Hello" not in str(collector.spans)
    assert "broken" not in str(collector.spans)


def test_what_is_left_is_sent_at_the_end(collector: Collector) -> None:
    from app.observability.tracing import to_collector

    before = list(logs.sinks)
    traces = to_collector(collector.url)
    traces.start()
    waited = (logs.StageSpan("boundary", -0.5, 0.4),)
    entry = logs.Finished(
        None, "not a traceparent", 1e9, "m", "websocket", True, "ok", None, 1.0, 2.0, {}, waited
    )  # fmt: skip
    traces.note(entry)
    traces.stop()
    root, child = sorted(collector.spans, key=lambda span: span.name, reverse=True)
    assert (root.name, child.name) == ("websocket", "boundary")
    # A wait that began before the request counts as begun lies inside of it all the same.
    assert root.start_time_unix_nano == child.start_time_unix_nano == int((1e9 - 0.5) * 1e9)
    assert logs.sinks == before


def test_a_collector_that_is_gone_delays_no_end() -> None:
    import time

    from app.observability.tracing import to_collector

    traces = to_collector("http://127.0.0.1:9/v1/traces")
    traces.start()
    traces.note(logs.Finished(None, None, 1e9, "m", "openai", False, "ok", None, 1.0, 2.0, {}, ()))
    stopping = threading.Thread(target=traces.stop)
    begin = time.monotonic()
    stopping.start()
    stopping.join(20)
    assert not stopping.is_alive(), f"still waiting after {time.monotonic() - begin:.0f} s"


def test_without_the_extra_the_setting_is_refused() -> None:
    code = """
import sys
sys.modules["opentelemetry.exporter.otlp.proto.http.trace_exporter"] = None
from app.config import SettingsError
from app.observability.tracing import to_collector
try:
    to_collector("http://127.0.0.1:4318/v1/traces")
except SettingsError as error:
    assert "nightingale extras install otel" in str(error), error
else:
    sys.exit(3)
import app.application
assert not any(name.startswith("opentelemetry.sdk") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=180)
