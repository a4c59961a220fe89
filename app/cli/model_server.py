"""`nightingale models load` and `unload`: have a server that runs load or unload a model, and show its progress."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any
from urllib.parse import quote

import httpx2

from app.cli.command import USAGE_ERROR, CommandError
from app.config import Settings

# Seconds between two looks at a model.
_LOOK_EVERY = 0.5
# Seconds for one answer.
_ANSWER = 30.0
# States in which a load or an unload is under way.
_UNDER_WAY = ("loading", "unloading")
# Longest key file in characters.
_MOST_KEY = 1_000


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Load or unload a model, and wait for the end. Raises CommandError."""
    base = arguments.server or _address(settings)
    if not base.startswith(("http://", "https://")):
        raise CommandError(f"'{base}' is not an address such as http://127.0.0.1:8000", USAGE_ERROR)
    key = None if arguments.key_file is None else _read_key(arguments.key_file)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    path = f"/v1/models/{quote(arguments.name, safe='')}"
    end = time.monotonic() + arguments.timeout
    try:
        with httpx2.Client(base_url=base, headers=headers, timeout=_ANSWER) as client:
            entry = _read(client.post(f"{path}/{arguments.action}"))
            shown = ""
            while entry["status"] in _UNDER_WAY and time.monotonic() < end:
                shown = _show(entry, shown)
                time.sleep(_LOOK_EVERY)
                entry = _read(client.get(path))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise CommandError(f"cannot reach {base}: {str(error) or type(error).__name__}") from None
    return _report(entry, arguments.action)


def _report(entry: dict[str, Any], action: str) -> int:
    status, name = entry["status"], entry["id"]
    if status in _UNDER_WAY:
        raise CommandError(f"{name}: still {status}; the server goes on")
    if (status == "ready") != (action == "load"):
        raise CommandError(f"{name}: {status}. {entry.get('error') or ''}".strip())
    memory = entry.get("memory_bytes")
    size = f", {memory / 1e6:.0f} MB" if memory and action == "load" else ""
    print(f"{name}: {'loaded' if action == 'load' else 'unloaded'}{size}")
    return 0


def _show(entry: dict[str, Any], before: str) -> str:
    """Print the progress of a model, if it differs from the line before; return the line."""
    progress = entry.get("progress")
    line = f"{entry['id']}: {entry['status']}"
    if progress and progress.get("total"):
        line += f", {progress['done']} of {progress['total']} shapes"
    elif entry["status"] == "unloading":
        line += f" once {entry['requests']} requests end"
    if line != before:
        print(line, file=sys.stderr, flush=True)
    return line


def _read(answer: httpx2.Response) -> dict[str, Any]:
    """Return the model of an answer. Raises CommandError with the server's own message."""
    try:
        body = answer.json()
        if answer.is_success:
            return {"id": body["id"], "status": body["status"], "requests": body.get("requests", 0), **body}
        raise CommandError(str(body["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"{answer.url} answered {answer.status_code}, and not as this server does") from None


def _read_key(name: str) -> str:
    """Return the first line of a file. Raises CommandError and OSError."""
    if name == "-":
        key = sys.stdin.readline(_MOST_KEY).strip()
    else:
        with open(name, encoding="ascii", errors="replace") as file:  # noqa: PTH123  (as it was given)
            key = file.readline(_MOST_KEY).strip()
    if not key or not key.isascii() or not key.isprintable():
        raise CommandError(f"{name} does not begin with a key", USAGE_ERROR)
    return key


def _address(settings: Settings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
