"""`nightingale models load` and `unload`: have a server that runs load or unload a model, and show its progress."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any
from urllib.parse import quote

from app.cli.command import CommandError
from app.cli.interrupt import run_interruptible
from app.cli.server_client import ServerClient, ServerError, read_key
from app.config import Settings

# Seconds between two looks at a model.
_POLL_SECONDS = 0.5
# States in which a load or an unload is under way.
_UNDER_WAY = ("loading", "unloading")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Load or unload a model, and wait for the end. Raises CommandError and OSError."""
    client = ServerClient(arguments.url or _address(settings), read_key(arguments.key_file))
    try:
        entry = run_interruptible(_act(client, arguments.name, arguments.action, arguments.timeout))
    except ServerError as error:
        raise CommandError(str(error)) from None
    return _report(entry, arguments.action)


async def _act(client: ServerClient, name: str, action: str, seconds: float) -> dict[str, Any]:
    """Return the model's entry once it is loaded or unloaded, or after so many seconds. Raises ServerError."""
    path = f"/v1/models/{quote(name, safe='')}"
    end = time.monotonic() + seconds
    async with client:
        entry = _checked(await client.ask("POST", f"{path}/{action}"), client.url)
        shown = ""
        while entry["status"] in _UNDER_WAY and time.monotonic() < end:
            shown = _show(entry, shown)
            await asyncio.sleep(_POLL_SECONDS)
            entry = _checked(await client.ask("GET", path), client.url)
        return entry


def _checked(entry: dict[str, Any], url: str) -> dict[str, Any]:
    if not isinstance(entry.get("status"), str) or not isinstance(entry.get("id"), str):
        raise ServerError(f"{url} did not answer as a Nightingale server does")
    return entry


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
        line += f" once {entry.get('requests', 0)} requests end"
    if line != before:
        print(line, file=sys.stderr, flush=True)
    return line


def _address(settings: Settings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
