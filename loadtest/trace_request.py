"""The way of one request through the code: files, functions, calls and the objects made on the way.

    python -m loadtest.trace_request [--text "Hello world."] [--list]

One request each to `POST /v1/audio/speech`, `WS /v1/audio/stream` and `POST /v1/translate`, in this process, on the
bundled models. `sys.setprofile` and `threading.setprofile` count what runs in `app/` and `models/`, on every thread.
The first request of a kind is not counted: it imports modules and fills caches.

`files` are files with at least one function that ran; `lines` all lines in them; `functions` named functions;
`calls` pairs of a function and a function of another file that it calls, directly or through a library. `values` are
our classes without behavior of their own that were made for the request (dataclasses, named tuples, pydantic models),
`objects` all other classes, each in order of first use.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pydantic import BaseModel
from starlette.types import ASGIApp, Message

ROOT = Path(__file__).resolve().parents[1]
OURS = ("app", "models")
# Seconds after a request in which what it left behind is counted, too.
REST = 0.2


@dataclass(slots=True)
class Trace:
    """Functions that ran, and classes that were made, while `recording`."""

    recording: bool = False
    functions: dict[CodeType, None] = field(default_factory=dict)
    calls: set[tuple[CodeType, CodeType]] = field(default_factory=set)
    made: dict[type, None] = field(default_factory=dict)
    _ours: dict[str, bool] = field(default_factory=dict)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record one event; a function for `sys.setprofile`."""
        if not self.recording or event not in ("call", "return"):
            return
        code = frame.f_code
        if event == "return":
            # Pydantic makes its models without Python's `__init__`.
            if isinstance(argument, BaseModel) and _is_ours(type(argument)):
                self.made.setdefault(type(argument))
            return
        # A named tuple is made by a lambda, whose first argument is the class.
        if code.co_varnames and (code.co_name == "__init__" or code.co_varnames[0] == "_cls"):
            self._note_instance(frame.f_locals.get(code.co_varnames[0]))
        if not self._owns(code) or code.co_name.startswith("<"):
            return
        self.functions.setdefault(code)
        caller = frame.f_back
        while caller is not None and (not self._owns(caller.f_code) or caller.f_code.co_name.startswith("<")):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.calls.add((caller.f_code, code))

    def _owns(self, code: CodeType) -> bool:
        name = code.co_filename
        found = self._ours.get(name)
        if found is None:
            found = self._ours[name] = any(name.startswith(f"{ROOT / folder}/") for folder in OURS)
        return found

    def _note_instance(self, instance: Any) -> None:
        made = instance if isinstance(instance, type) else type(instance)
        if _is_ours(made):
            self.made.setdefault(made)

    @property
    def files(self) -> list[str]:
        """Files that ran, relative to the repository, in order of first use."""
        return list(dict.fromkeys(str(Path(code.co_filename).relative_to(ROOT)) for code in self.functions))


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in OURS


def is_value(kind: type) -> bool:
    """Return whether a class only holds values: a dataclass, a named tuple or a pydantic model."""
    return dataclasses.is_dataclass(kind) or issubclass(kind, tuple | BaseModel)


class Peer:
    """The other side of an ASGI application: what it is sent and what it answers."""

    def __init__(self, *messages: Message) -> None:
        self.answers: list[Message] = []
        self.done = asyncio.Event()
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self._messages.put_nowait(message)

    def put(self, message: Message) -> None:
        """Send `message`."""
        self._messages.put_nowait(message)

    async def receive(self) -> Message:
        """ASGI's `receive`."""
        return await self._messages.get()

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        self.answers.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.done.set()
        if message["type"] == "websocket.send" and '"done"' in (message.get("text") or ""):
            self.done.set()


def _scope(kind: str, path: str, method: str = "POST") -> dict[str, Any]:
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    common: dict[str, Any] = {
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "root_path": "",
    }
    common |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "asgi": {"version": "3.0"}, "state": {}}
    if kind == "http":
        return {"type": kind, "method": method, "http_version": "1.1", "scheme": "http", **common}
    return {"type": kind, "http_version": "1.1", "scheme": "ws", "subprotocols": [], **common}


async def post(app: ASGIApp, path: str, body: dict[str, Any], trace: Trace) -> None:
    """Send one request over HTTP. Raises RuntimeError unless the answer is 200."""
    peer = Peer({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
    trace.recording = True
    await app(_scope("http", path), peer.receive, peer.send)
    await asyncio.sleep(REST)
    trace.recording = False
    if peer.answers[0]["status"] != 200:
        raise RuntimeError(f"{path}: {peer.answers}")


async def get_status(app: ASGIApp, path: str) -> int:
    """Return the status of a GET."""
    peer = Peer({"type": "http.request", "body": b"", "more_body": False})
    await app(_scope("http", path, "GET"), peer.receive, peer.send)
    return int(peer.answers[0]["status"])


async def speak_over_socket(app: ASGIApp, text: str, trace: Trace) -> None:
    """Speak one text over a WebSocket of its own. Raises RuntimeError if no `done` comes."""
    start = {"type": "start", "format": "pcm", "model": "house"}
    messages = [start, {"type": "text", "text": text}, {"type": "flush"}]
    peer = Peer({"type": "websocket.connect"})
    for message in messages:
        peer.put({"type": "websocket.receive", "text": json.dumps(message)})
    trace.recording = True
    serving = asyncio.ensure_future(_run(app(_scope("websocket", "/v1/audio/stream"), peer.receive, peer.send)))
    try:
        await asyncio.wait_for(peer.done.wait(), 60)
    except TimeoutError:
        raise RuntimeError(f"no 'done': {peer.answers}") from None
    peer.put({"type": "websocket.disconnect", "code": 1000})
    await serving
    await asyncio.sleep(REST)
    trace.recording = False


async def _run(work: Awaitable[None]) -> None:
    await work


async def trace_all(text: str) -> dict[str, Trace]:
    """Trace one request of each kind."""
    from app.application import create_app
    from app.config import Settings

    choices = {"default_model": "house", "translation_model": "phrasebook", "data_dir": tempfile.mkdtemp()}
    settings = Settings.model_validate(choices)
    app = create_app(settings)
    kinds: dict[str, Callable[[Trace], Awaitable[None]]] = {
        "POST /v1/audio/speech": lambda trace: post(app, "/v1/audio/speech", {"input": text}, trace),
        "WS /v1/audio/stream": lambda trace: speak_over_socket(app, text, trace),
        "POST /v1/translate": lambda trace: post(
            app, "/v1/translate", {"text": "Good morning.", "source": "en", "target": "fr"}, trace
        ),
    }
    current = Trace()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        current(frame, event, argument)

    found = {}
    threading.setprofile(profile)
    async with app.router.lifespan_context(app):
        while await get_status(app, "/readyz") != 200:  # noqa: ASYNC110  (as a client of another process would)
            await asyncio.sleep(0.1)
        for name, send in kinds.items():
            await send(Trace())
            current = Trace()
            sys.setprofile(profile)
            await send(current)
            sys.setprofile(None)
            found[name] = current
            current = Trace()
    return found


def report(found: dict[str, Trace], *, listed: bool) -> str:
    """Return a table in Markdown, and the classes below it; `listed`: the files, too."""
    lines = ["| | files (app / models) | lines in them | functions | calls between files | values | objects |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, trace in found.items():
        files = trace.files
        app = sum(each.startswith("app/") for each in files)
        size = sum(len((ROOT / each).read_text(encoding="utf-8").splitlines()) for each in files)
        count = sum(map(is_value, trace.made))
        lines.append(
            f"| {name} | {len(files)} ({app} / {len(files) - app}) | {size} | {len(trace.functions)} "
            f"| {len(trace.calls)} | {count} | {len(trace.made) - count} |"
        )
    for name, trace in found.items():
        values = [kind.__qualname__ for kind in trace.made if is_value(kind)]
        others = [kind.__qualname__ for kind in trace.made if not is_value(kind)]
        lines += ["", f"**{name}**", "", f"- values: {', '.join(values)}", f"- objects: {', '.join(others)}"]
        if listed:
            lines += [f"- {each}" for each in trace.files]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="Hello world.", help="one sentence to speak")
    parser.add_argument("--list", action="store_true", help="print the files, too")
    given = parser.parse_args(arguments)
    print(report(asyncio.run(trace_all(given.text)), listed=given.list))
    return 0


if __name__ == "__main__":
    sys.exit(main())
