"""Log of the server, and the record of its last requests for the dashboard and traces.

The log has lines for people, or one JSON object a line for a collector. A line carries the id of its request. No line
has text that is spoken or translated, and none has a voice.
"""

from __future__ import annotations

import json
import logging
import logging.config
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from app import request_context
from models.timeline import Timeline

log = logging.getLogger("app.requests")

Style = Literal["text", "json"]
# Requests that are remembered.
KEPT = 50


def event(to: logging.Logger, level: int, message: str, **fields: object) -> None:
    """Log `message` to the logger `to`, with `fields`: members of a JSON line, or `key=value` at the end of a line."""
    if to.isEnabledFor(level):
        to.log(level, message, extra={"fields": fields})


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that `event` was given."""
    result = getattr(record, "fields", None)
    return result if isinstance(result, dict) else {}


class LineFormatter(logging.Formatter):
    """Formatter of `INFO:     app.requests: request method=GET path=/livez status=200 [id]`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and a traceback after it if there is one."""
        parts = [f"{record.levelname + ':':<9} {record.name}: {_one_line(record.getMessage())}"]
        parts += [f"{key}={_value(value)}" for key, value in _fields(record).items() if value is not None]
        if (id_ := request_context.request_id.get()) is not None:
            parts.append(f"[{id_}]")
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object a line: time (UTC), level, logger, message, request_id, the fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, even for a message with line breaks."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (id_ := request_context.request_id.get()) is not None:
            entry["request_id"] = id_
        entry.update(_fields(record))
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure(level: str, style: Style) -> None:
    """Send everything, uvicorn's messages too, to standard error in one style."""
    formatter = JsonFormatter if style == "json" else LineFormatter
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"one": {"()": formatter}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "one"}},
            "root": {"level": level.upper(), "handlers": ["stderr"]},
            # uvicorn's own handlers are off, and its line per request: `app.requests` says more.
            "loggers": {
                "uvicorn": {"handlers": [], "propagate": True},
                "uvicorn.access": {"handlers": [], "propagate": False},
            },
        }
    )


def _one_line(text: str) -> str:
    # A line break in a path or a header would forge a line.
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = _one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


@dataclass(frozen=True, slots=True)
class StageSpan:
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
    spans: tuple[StageSpan, ...]

    @property
    def rtf(self) -> float | None:
        """Real-time factor: seconds of processing per second of audio."""
        return self.total / self.audio if self.audio > 0 else None


Sink = Callable[[Finished], None]

recent: deque[Finished] = deque(maxlen=KEPT)
# Functions that are called with every finished request, such as that of `app.observability.tracing`.
sinks: list[Sink] = []


def note(timeline: Timeline, model: str, surface: str, streaming: bool, outcome: str) -> None:
    """Remember and log a finished request, and pass it to the sinks. `model`: "none" if it was refused before one.

    `streaming`: it was answered while the answer was computed. `outcome`: ok, cancelled, rejected or failed.
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
            StageSpan(stage.value, round(start - timeline.started, 6), round(seconds, 6))
            for stage, start, seconds in timeline.spans
        ),
    )
    recent.append(entry)
    event(
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
