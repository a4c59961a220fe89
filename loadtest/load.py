"""N clients at once against a running server: first audio, completion and real-time factor, by percentile.

    python loadtest/load.py --url http://127.0.0.1:8000 --clients 4 --requests 40 --surface both

A closed loop: each client sends its next request when the last is answered, so the numbers say how the server shares
itself among N listeners, not what it does under an arrival rate it cannot hold. First audio is the first byte of
sound (the WAV header does not count); the real-time factor is seconds to completion per second of audio.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import platform
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import httpx
import numpy as np
import websockets

TEXTS = (
    "Hello world.",
    "The kettle is on, and the tea is nearly ready.",
    "Before the shop opens, the baker lays out bread, rolls and cakes, and writes the prices on a board.",
    "The last bus was late again. We walked along the river instead. Nobody minded, because the night was warm.",
)
WAV_HEADER = 44
BYTES_PER_SAMPLE = 2
PERCENTILES = (50, 95, 99)
SURFACES = ("http", "websocket")


@dataclass(frozen=True, slots=True)
class Result:
    """One request. Seconds; `audio` is how long its sound lasts; `error` is None when it was served."""

    surface: str
    first: float = 0.0
    total: float = 0.0
    audio: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What to send."""

    url: str
    clients: int
    requests: int
    surfaces: tuple[str, ...]
    model: str | None
    voice: str | None
    timeout: float

    def options(self) -> dict[str, str]:
        """Model and voice, where they are chosen."""
        return {key: value for key, value in (("model", self.model), ("voice", self.voice)) if value is not None}


async def over_http(load: Load, client: httpx.AsyncClient, text: str) -> Result:
    """One streamed WAV."""
    start = time.perf_counter()
    first, received = 0.0, 0
    body = {"input": text, "response_format": "wav", **load.options()}
    async with client.stream("POST", f"{load.url}/v1/audio/speech", json=body) as reply:
        if reply.status_code != httpx.codes.OK:
            await reply.aread()
            return Result("http", error=f"HTTP {reply.status_code}")
        rate = int(reply.headers["x-sample-rate"])
        async for data in reply.aiter_raw():
            received += len(data)
            if not first and received > WAV_HEADER:
                first = time.perf_counter() - start
    seconds = (received - WAV_HEADER) / BYTES_PER_SAMPLE / rate
    return Result("http", first, time.perf_counter() - start, seconds)


async def over_websocket(load: Load, text: str) -> Result:
    """One connection, one text, until its `done`."""
    start = time.perf_counter()
    first, received, rate = 0.0, 0, 1
    address = load.url.replace("http", "ws", 1) + "/v1/audio/stream"
    async with websockets.connect(address, open_timeout=load.timeout, compression=None) as socket_:
        await socket_.send(json.dumps({"type": "start", "format": "pcm", **load.options()}))
        await socket_.send(json.dumps({"type": "text", "text": text}))
        await socket_.send(json.dumps({"type": "flush"}))
        async for message in socket_:
            if isinstance(message, bytes):
                first = first or time.perf_counter() - start
                received += len(message)
                continue
            event = json.loads(message)
            if event["type"] == "ready":
                rate = event["sample_rate"]
            elif event["type"] == "error":
                return Result("websocket", error=str(event["error"]["code"]))
            elif event["type"] == "done":
                break
        total = time.perf_counter() - start
    return Result("websocket", first, total, received / BYTES_PER_SAMPLE / rate)


async def run(load: Load) -> tuple[list[Result], float]:
    """Send everything; return the results and the seconds it took."""
    results: list[Result] = []
    # Taken by whichever client is free: the number of requests is bounded whatever each of them costs.
    waiting = iter(range(load.requests))
    limits = httpx.Limits(max_connections=load.clients)
    async with httpx.AsyncClient(timeout=load.timeout, limits=limits) as client:

        async def one_client() -> None:
            for number in waiting:
                surface = load.surfaces[number % len(load.surfaces)]
                text = TEXTS[number // len(load.surfaces) % len(TEXTS)]
                try:
                    async with asyncio.timeout(load.timeout):
                        call = over_http(load, client, text) if surface == "http" else over_websocket(load, text)
                        results.append(await call)
                except (httpx.HTTPError, websockets.WebSocketException, OSError, TimeoutError) as error:
                    results.append(Result(surface, error=type(error).__name__))

        start = time.perf_counter()
        await asyncio.gather(*(one_client() for _ in range(load.clients)))
        return results, time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Summary:
    """One surface's figures: percentiles by number, seconds."""

    surface: str
    served: int
    errors: dict[str, int]
    first: dict[int, float]
    total: dict[int, float]
    rtf: dict[int, float]
    audio: float


def summarise(surface: str, results: Sequence[Result]) -> Summary:
    """Percentiles over the requests that were served; errors are counted apart, never as fast answers."""
    served = [result for result in results if result.error is None]

    def percentiles(values: list[float]) -> dict[int, float]:
        return {p: float(np.percentile(values, p)) for p in PERCENTILES} if values else {}

    return Summary(
        surface=surface,
        served=len(served),
        errors=dict(Counter(result.error for result in results if result.error is not None)),
        first=percentiles([result.first for result in served]),
        total=percentiles([result.total for result in served]),
        rtf=percentiles([result.total / result.audio for result in served if result.audio > 0]),
        audio=sum(result.audio for result in served),
    )


def table(summaries: Sequence[Summary]) -> str:
    """Milliseconds; one line a surface."""
    heads = ["surface", "served", "errors"]
    heads += [f"{name} p{p}" for name in ("first", "total") for p in PERCENTILES] + [f"RTF p{p}" for p in PERCENTILES]
    lines = [heads]
    for summary in summaries:
        cells = [summary.surface, str(summary.served), str(sum(summary.errors.values()))]
        for values in (summary.first, summary.total):
            cells += [f"{values[p] * 1e3:.0f} ms" if values else "-" for p in PERCENTILES]
        lines.append(cells + [f"{summary.rtf[p]:.3f}" if summary.rtf else "-" for p in PERCENTILES])
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def is_loopback(host: str) -> bool:
    """Whether every address of `host` is on this machine. Raises OSError for a name that does not resolve."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(entry[4][0]).split("%")[0]).is_loopback for entry in found)


def machine() -> dict[str, object]:
    """Where the clients ran. They use the same processors as a server on this machine."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "name": platform.node(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": usable,
        "python": platform.python_version(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 0 when every request was served, 1 when some were not, 2 for wrong usage."""
    parser = argparse.ArgumentParser(description="Put load on a running server.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=4, help="how many at once (default 4, at most 256)")
    parser.add_argument("--requests", type=int, default=40, help="how many in all (default 40, at most 100000)")
    parser.add_argument("--surface", choices=[*SURFACES, "both"], default="both")
    parser.add_argument("--model", help="default: the server's")
    parser.add_argument("--voice", help="default: the model's")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a request may take (default 60)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--allow-remote", action="store_true", help="aim at another machine: only at one of your own")
    given = parser.parse_args(arguments)
    if not (1 <= given.clients <= 256 and 1 <= given.requests <= 100_000 and 0 < given.timeout <= 3600):
        parser.error("--clients is 1 to 256, --requests 1 to 100000, --timeout up to 3600 seconds")
    url = given.url.rstrip("/")
    host = urlsplit(url).hostname
    if urlsplit(url).scheme not in ("http", "https") or host is None:
        parser.error(f"--url must be an http:// or https:// address, not '{given.url}'")
    try:
        if not given.allow_remote and not is_loopback(host):
            parser.error(f"{host} is not this machine; --allow-remote if you may put load on it")
        httpx.get(f"{url}/readyz", timeout=5).raise_for_status()
    except (OSError, httpx.HTTPError) as error:
        print(f"load: no ready server at {url}: {error}", file=sys.stderr)
        return 1
    surfaces = SURFACES if given.surface == "both" else (given.surface,)
    load = Load(url, given.clients, given.requests, surfaces, given.model, given.voice, given.timeout)
    results, seconds = asyncio.run(run(load))
    groups = [summarise(name, [result for result in results if result.surface == name]) for name in surfaces]
    if given.json:
        setup = {"clients": load.clients, "requests": load.requests, "seconds": seconds, "machine": machine()}
        print(json.dumps(setup | {"surfaces": [asdict(group) for group in groups]}, indent=2))
    else:
        audio = sum(group.audio for group in groups)
        place = machine()
        print(f"{place['name']}: {place['system']} {place['architecture']}, {place['cpus']} CPUs")
        print(f"{load.clients} clients, {len(results)} requests, {audio:.1f} s of audio in {seconds:.1f} s")
        print(table(groups))
        for group in groups:
            for name, count in group.errors.items():
                print(f"{group.surface}: {count} x {name}")
    return 1 if any(group.errors for group in groups) else 0


if __name__ == "__main__":
    sys.exit(main())
