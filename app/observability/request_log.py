"""Record of the last requests, each with the times of its stages: for the dashboard, the log and traces."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from app import request_context
from app.observability import logs
from models.timeline import Timeline

log = logging.getLogger("app.requests")

# Requests that are remembered.
KEPT = 50


@dataclass(frozen=True, slots=True)
class Span:
    """One turn of a stage. `start`: seconds from the request's arrival, negative for a wait for text before it."""

    stage: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Finished request. `started` is Unix time; the other times are seconds, `first_audio` from `started`."""

    request_id: str | None
    traceparent: str | None
    started: float
    model: str
    surface: str
    streaming: bool
    outcome: str
    first_audio: float | None
    total: float
    audio: float
    stages: dict[str, float]
    spans: tuple[Span, ...]

    @property
    def rtf(self) -> float | None:
        """Real-time factor: seconds of processing per second of audio."""
        return self.total / self.audio if self.audio > 0 else None


Sink = Callable[[Finished], None]

recent: deque[Finished] = deque(maxlen=KEPT)
# Functions that are called with every finished request, such as that of `app.observability.tracing`.
sinks: list[Sink] = []


def note(timeline: Timeline, model: str, surface: str, streaming: bool, outcome: str) -> None:
    """Remember and log a finished request, and pass it to the sinks.

    Args:
        timeline: its times.
        model: name of its model; "none" if it was refused before one was chosen.
        surface: API that it came through.
        streaming: whether it was answered while the answer was computed.
        outcome: ok, cancelled, rejected or failed.
    """
    entry = Finished(
        request_id=request_context.request_id.get(),
        traceparent=request_context.traceparent.get(),
        # The moment of the monotonic clock, as Unix time.
        started=time.time() - (time.perf_counter() - timeline.started),
        model=model,
        surface=surface,
        streaming=streaming,
        outcome=outcome,
        first_audio=timeline.ttfa_seconds,
        total=timeline.total_seconds,
        audio=timeline.audio_seconds,
        stages={stage.value: round(seconds, 6) for stage, seconds in timeline.stages.items()},
        spans=tuple(
            Span(stage.value, round(start - timeline.started, 6), round(seconds, 6))
            for stage, start, seconds in timeline.spans
        ),
    )
    recent.append(entry)
    logs.event(
        log,
        logging.WARNING if outcome == "failed" else logging.INFO,
        "served" if outcome == "ok" else outcome,
        model=model,
        surface=surface,
        streaming=streaming,
        outcome=outcome,
        first_audio=_rounded(entry.first_audio),
        total=_rounded(entry.total),
        audio=_rounded(entry.audio),
        rtf=_rounded(entry.rtf),
        stages=entry.stages or None,
    )
    for sink in sinks:
        try:
            sink(entry)
        except Exception:  # a sink must not fail the request
            log.exception("a finished request could not be passed on")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
