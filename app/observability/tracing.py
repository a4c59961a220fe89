"""OpenTelemetry traces (extra `otel`): a span for each finished request, and in it one for each turn of a stage.

Spans are made from the Timeline of a request that has ended. So the times in a trace, in the metrics and in the log are
the same, and no work waits for a trace. A client's `traceparent` (W3C Trace Context) becomes the parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import __version__
from app.config import SettingsError
from app.extras import needs
from app.observability import logs

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

# Milliseconds that the end of the process waits for a collector.
FLUSH_MILLISECONDS = 2_000
NANOSECONDS = 1_000_000_000


class Traces:
    """Exporter of finished requests to a collector, in batches, on a thread of its own."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        # OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME win over the name set here.
        resource = Resource.create({"service.version": __version__})
        if str(resource.attributes.get("service.name", "unknown_service")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "nightingale"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("nightingale", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def start(self) -> None:
        """Take every finished request from now on."""
        logs.sinks.append(self.note)

    def stop(self) -> None:
        """Send the rest, for a bounded time. Blocks."""
        logs.sinks.remove(self.note)
        self._provider.force_flush(FLUSH_MILLISECONDS)
        self._provider.shutdown()

    def note(self, entry: logs.Finished) -> None:
        """Make the spans of a request."""
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        def moment(seconds: float) -> int:
            return int((entry.started + seconds) * NANOSECONDS)

        carrier = {} if entry.traceparent is None else {"traceparent": entry.traceparent}
        # A wait for text may begin before the arrival.
        begin = min([0.0, *(span.start for span in entry.spans)])
        attributes: dict[str, str | bool | float] = {
            "nightingale.model": entry.model,
            "nightingale.streaming": entry.streaming,
            "nightingale.outcome": entry.outcome,
            "nightingale.audio_seconds": entry.audio,
        }
        if entry.request_id is not None:
            attributes["nightingale.request_id"] = entry.request_id
        root = self._tracer.start_span(
            entry.surface,
            context=self._propagator.extract(carrier),
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=moment(begin),
        )
        inside = set_span_in_context(root)
        for span in entry.spans:
            child = self._tracer.start_span(span.stage, context=inside, start_time=moment(span.start))
            child.end(moment(span.start + span.seconds))
        if entry.first_audio is not None:
            root.add_event("first audio", timestamp=moment(entry.first_audio))
        if entry.outcome == "failed":
            root.set_status(StatusCode.ERROR)
        root.end(moment(max([entry.total, *(span.start + span.seconds for span in entry.spans)])))


def to_collector(endpoint: str) -> Traces:
    """Return an exporter to the OTLP collector at `endpoint`, over HTTP. Raises SettingsError without the extra."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise SettingsError(needs("setting 'otlp_endpoint'", "otel")) from None
    return Traces(OTLPSpanExporter(endpoint=endpoint, timeout=FLUSH_MILLISECONDS / 1000))
