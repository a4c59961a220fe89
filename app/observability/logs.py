"""Format of the log: lines for people, or one JSON object a line for a collector.

A line carries the id of its request. No line has text that is spoken or translated, and none has a voice.
"""

from __future__ import annotations

import json
import logging
import logging.config
from datetime import UTC, datetime
from typing import Any, Literal

from app.request_context import request_id

Style = Literal["text", "json"]


def event(log: logging.Logger, level: int, message: str, **fields: object) -> None:
    """Log `message` and `fields`: members of a JSON line, or `key=value` after the message in a line for people."""
    if log.isEnabledFor(level):
        log.log(level, message, extra={"fields": fields})


class _Formatter(logging.Formatter):
    @staticmethod
    def fields(record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields that `event` was given."""
        found = getattr(record, "fields", None)
        return found if isinstance(found, dict) else {}


class LineFormatter(_Formatter):
    """Formatter of `INFO:     app.requests: request method=GET path=/livez status=200 [id]`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and a traceback after it if there is one."""
        parts = [f"{record.levelname + ':':<9} {record.name}: {_one_line(record.getMessage())}"]
        parts += [f"{key}={_value(value)}" for key, value in self.fields(record).items() if value is not None]
        if (id_ := request_id.get()) is not None:
            parts.append(f"[{id_}]")
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(_Formatter):
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
        if (id_ := request_id.get()) is not None:
            entry["request_id"] = id_
        entry.update(self.fields(record))
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
