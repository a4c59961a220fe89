"""Clients of the surfaces: each sends one request and returns a Trace of the reply."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import websockets
from websockets.asyncio.client import ClientConnection

from loadtest.arrivals import Request
from loadtest.playback import Piece, Trace

WAV_HEADER = 44
BYTES_PER_SAMPLE = 2
# Bytes that come closer together than this, in seconds, left the server in one piece.
SAME_PIECE = 0.002
# Codes of errors by which a server under load refuses, on the WebSocket.
REFUSALS = frozenset({"overloaded", "unavailable", "draining", "rate_limit_exceeded"})


@dataclass(slots=True)
class Target:
    """Address of the server, and the longest wait for an answer in seconds. `clock` is seconds since the run began."""

    url: str
    timeout: float
    voice: str | None = None
    started: float = field(default_factory=time.perf_counter)

    def clock(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.started

    def options(self, request: Request) -> dict[str, Any]:
        """Return the request fields that every surface takes."""
        chosen: dict[str, Any] = {"seed": request.seed}
        if request.model is not None:
            chosen["model"] = request.model
        if self.voice is not None:
            chosen["voice"] = self.voice
        return chosen


Sender = Callable[[Target, httpx.AsyncClient, Request, Trace], Any]


async def send(target: Target, client: httpx.AsyncClient, request: Request) -> Trace:
    """Send `request` now. The trace holds any failure."""
    now = target.clock()
    trace = Trace(request.surface, due=request.due, sent=now, text_sent=now, model=request.model)
    try:
        async with asyncio.timeout(target.timeout):
            await SENDERS[request.surface](target, client, request, trace)
    except (httpx.HTTPError, websockets.WebSocketException, OSError, TimeoutError) as error:
        trace.error = type(error).__name__
    trace.end = target.clock()
    if trace.error is None and not trace.pieces:
        trace.error = "no audio"
    return trace


@asynccontextmanager
async def _speech(
    target: Target, client: httpx.AsyncClient, request: Request, trace: Trace, **more: str
) -> AsyncIterator[httpx.Response | None]:
    body = {"input": request.text, **more, **target.options(request)}
    async with client.stream("POST", f"{target.url}/v1/audio/speech", json=body) as reply:
        if reply.status_code == httpx.codes.OK:
            yield reply
            return
        await reply.aread()
        trace.error = f"HTTP {reply.status_code}"
        trace.refused = reply.status_code in (429, 503)
        yield None


async def _http(target: Target, client: httpx.AsyncClient, request: Request, trace: Trace) -> None:
    async with _speech(target, client, request, trace, response_format="wav") as reply:
        if reply is None:
            return
        rate = int(reply.headers["x-sample-rate"])
        whole = "content-length" in reply.headers
        received, counted = 0, 0
        async for data in reply.aiter_raw():
            received += len(data)
            sound = max(0, received - WAV_HEADER)
            if sound == counted:
                continue
            at, seconds = target.clock(), (sound - counted) / BYTES_PER_SAMPLE / rate
            counted = sound
            last = trace.pieces[-1] if trace.pieces else None
            if last is not None and at - last.at < SAME_PIECE:
                trace.pieces[-1] = Piece(last.at, last.seconds + seconds)
            else:
                trace.pieces.append(Piece(at, seconds))
        if whole:
            # One sentence: the header has all of its stages.
            trace.stages = server_timing(reply.headers.get("server-timing", ""))
            trace.server_first = trace.stages.get("total")


def server_timing(header: str) -> dict[str, float]:
    """Return the stages of a `Server-Timing` header, in seconds."""
    found = {}
    for part in header.split(","):
        name, _, duration = part.strip().partition(";dur=")
        if duration:
            found[name] = float(duration) / 1e3
    return found


async def _sse(target: Target, client: httpx.AsyncClient, request: Request, trace: Trace) -> None:
    async with _speech(target, client, request, trace, response_format="pcm", stream_format="sse") as reply:
        if reply is None:
            return
        rate = int(reply.headers["x-sample-rate"])
        trace.sentences = True
        done = False
        async for line in reply.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event["type"] == "speech.audio.delta":
                size = len(base64.b64decode(event["audio"]))
                if size:
                    trace.pieces.append(Piece(target.clock(), size / BYTES_PER_SAMPLE / rate, len(trace.pieces)))
            elif event["type"] == "error":
                trace.error = str(event["error"]["code"])
            else:
                done = True
        if not done and trace.error is None:
            trace.error = "incomplete"


async def _websocket(target: Target, _: httpx.AsyncClient, request: Request, trace: Trace) -> None:
    try:
        async with open_socket(target, request) as (socket, rate):
            await speak(target, socket, rate, request.text, trace)
    except RefusedError as error:
        trace.error, trace.refused = error.code, error.code in REFUSALS


class RefusedError(Exception):
    """The server sent an error; `code` is its code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@asynccontextmanager
async def open_socket(target: Target, request: Request) -> AsyncIterator[tuple[ClientConnection, int]]:
    """Open and start a session; return it and its sample rate. Raises RefusedError."""
    address = target.url.replace("http", "ws", 1) + "/v1/audio/stream"
    async with websockets.connect(
        address, open_timeout=target.timeout, compression=None, max_size=None, close_timeout=1
    ) as socket:
        await socket.send(json.dumps({"type": "start", "format": "pcm", **target.options(request)}))
        event = json.loads(await socket.recv())
        if event["type"] == "error":
            raise RefusedError(str(event["error"]["code"]))
        yield socket, int(event["sample_rate"])


async def speak(target: Target, socket: ClientConnection, rate: int, text: str, trace: Trace) -> None:
    """Send text and flush on an open session, and read until its `done`. Raises RefusedError."""
    trace.sentences = True
    trace.text_sent = target.clock()
    await socket.send(json.dumps({"type": "text", "text": text}))
    await socket.send(json.dumps({"type": "flush"}))
    sentence, spoken = -1, None
    async for message in socket:
        if isinstance(message, bytes):
            trace.pieces.append(Piece(target.clock(), len(message) / BYTES_PER_SAMPLE / rate, sentence))
            continue
        event = json.loads(message)
        if event["type"] == "chunk":
            # Pieces of one sentence have its text; two equal sentences in a row are not in the texts sent here.
            sentence += event["text"] != spoken
            spoken = event["text"]
        elif event["type"] == "error":
            raise RefusedError(str(event["error"]["code"]))
        elif event["type"] == "done":
            trace.server_first, trace.stages = event["first_audio"], event["stages"]
            return
    trace.error = "incomplete"


SENDERS: dict[str, Sender] = {"http": _http, "sse": _sse, "websocket": _websocket}
