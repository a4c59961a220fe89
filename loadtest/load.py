"""Put load on a running server: percentiles of what its clients hear, and the load at which it no longer keeps up.

    python -m loadtest.load --clients 4 --requests 40               closed loop: each client sends when it was answered
    python -m loadtest.load --rate 1,2,4 --arrivals burst           open loop: so many requests a second, come what may
    python -m loadtest.load --streams 1,8 --requests 200            live: each plays in real time, then asks for more
    python -m loadtest.load --rate 1 --find-knee --save results     raised until continuity is below 99 %

First audio is the first byte of sound (a WAV header does not count), from when the request was due: what an open loop
sends late counts as waiting. A sentence's lag is how late it came for a player that starts with the first byte;
continuity is the share of streams that never had to wait. With --save: report.json, report.txt and report.svg.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import math
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import httpx
import numpy as np

from loadtest import plot, report
from loadtest.arrivals import LONG_TEXTS, SURFACES, TEXTS, Knee, Pattern, Surface, arrivals, find_knee, mix
from loadtest.clients import Target, send
from loadtest.playback import Trace
from loadtest.report import Step

UNITS = {"clients": "clients", "rate": "requests/s", "streams": "live streams"}
# Most requests under way at once: a server far beyond its knee would otherwise fill this program's memory.
MAX_CONCURRENT = 2_000


@dataclass(frozen=True, slots=True)
class Load:
    """Requests to send. `mode` is a key of UNITS; `requests` counts those of a level, `each`, if not 0, of a client."""

    url: str
    mode: str
    requests: int
    surfaces: tuple[Surface, ...]
    texts: tuple[str, ...]
    models: tuple[str | None, ...]
    voice: str | None
    timeout: float
    pattern: Pattern
    burst: int
    limit: float
    seed: int
    each: int = 0


async def run(load: Load, level: float) -> tuple[Step, list[Trace]]:
    """Put one level of load on the server."""
    rng = np.random.default_rng(load.seed)
    due = [0.0] * (load.each * int(level) or load.requests)
    if load.mode == "rate":
        due = arrivals(load.pattern, level, load.requests, rng, load.burst)
    requests = mix(due, load.surfaces, load.texts, load.models, rng)
    traces: list[Trace] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    async with httpx.AsyncClient(timeout=load.timeout, limits=limits) as client:
        before = await report.scrape(client, load.url)
        target = Target(load.url, load.timeout, load.voice)
        under_way = 0

        async def at_its_time(index: int) -> None:
            nonlocal under_way
            request = requests[index]
            await asyncio.sleep(max(0.0, request.due - target.clock()))
            if under_way >= MAX_CONCURRENT:
                now = target.clock()
                traces.append(Trace(request.surface, request.due, now, end=now, error="not sent"))
                return
            under_way += 1
            traces.append(await send(target, client, request))
            under_way -= 1

        # The next free client takes a request: their number is bounded, however long one takes.
        waiting = iter(requests)

        async def one_after_the_other(delay: float) -> None:
            await asyncio.sleep(delay)
            for request in waiting:
                trace = await send(target, client, replace(request, due=target.clock()))
                traces.append(trace)
                if load.mode == "streams" and trace.pieces:
                    until = trace.pieces[0].at
                    for piece in trace.pieces:
                        until = max(until, piece.at) + piece.seconds
                    await asyncio.sleep(max(0.0, until - target.clock()))

        if load.mode == "rate":
            await asyncio.gather(*(at_its_time(index) for index in range(load.requests)))
        else:
            # Listeners do not all come at once; --arrivals burst measures those who do.
            spread = 5.0 if load.mode == "streams" else 0.0
            delays = [float(delay) for delay in rng.uniform(0.0, spread, int(level))]
            await asyncio.gather(*(one_after_the_other(delay) for delay in delays))
        seconds = target.clock()
        server = report.between(before, await report.scrape(client, load.url))
    return report.step(level, UNITS[load.mode], traces, seconds, load.limit, server), traces


def is_loopback(host: str) -> bool:
    """Whether every address of `host` is on this machine. Raises OSError for a name that does not resolve."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(entry[4][0]).split("%")[0]).is_loopback for entry in found)


def _levels(text: str) -> list[float]:
    values = [float(part) for part in text.split(",")]
    if not all(math.isfinite(value) and 0 < value <= 10_000 for value in values):
        raise argparse.ArgumentTypeError("levels are numbers above 0, at most 10000")
    return values


def _counts(text: str) -> list[float]:
    values = _levels(text)
    if not all(value.is_integer() and value <= 1_000 for value in values):
        raise argparse.ArgumentTypeError("these are whole numbers from 1 to 1000")
    return values


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--clients", type=_counts, metavar="N[,N]", help="closed loop of so many at once (default 4)")
    modes.add_argument("--rate", type=_levels, metavar="R[,R]", help="open loop, requests a second")
    modes.add_argument("--streams", type=_counts, metavar="N[,N]", help="live streams, played in real time")
    parser.add_argument("--find-knee", action="store_true", help="raise the level from the (first) one given")
    parser.add_argument("--precision", type=float, help="of the knee, a share of it (default 0.1; of streams: exact)")
    parser.add_argument("--requests", type=int, default=40, help="how many for each level (default 40, at most 100000)")
    parser.add_argument("--each", type=int, default=0, metavar="N", help="so many for each client or stream instead")
    parser.add_argument("--arrivals", choices=get_args(Pattern), default="poisson", help="of an open loop")
    parser.add_argument("--burst", type=int, default=8, help="how many arrive together with --arrivals burst")
    parser.add_argument("--surface", choices=[*SURFACES, "both", "all"], default="both", help="both: http, websocket")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text a line, in place of those built in")
    parser.add_argument("--long", action="store_true", help="only texts of several sentences, which can be starved")
    parser.add_argument("--model", action="append", help="may be given several times; default: the server's")
    parser.add_argument("--voice", help="default: the model's")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a request may take (default 60)")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds to first audio for goodput (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same requests at the same times")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write report.json, report.txt and report.svg")
    parser.add_argument("--allow-remote", action="store_true", help="aim at another machine: only at one of your own")
    return parser


def _load(parser: argparse.ArgumentParser, given: argparse.Namespace) -> tuple[Load, list[float]]:
    if not (1 <= given.requests <= 100_000 and 0 < given.timeout <= 3600 and 1 <= given.burst <= 1_000):
        parser.error("--requests is 1 to 100000, --burst 1 to 1000, --timeout up to 3600 seconds")
    mode = next((name for name in UNITS if getattr(given, name) is not None), "clients")
    if not 0 <= given.each <= 1_000 or (given.each and mode == "rate"):
        parser.error("--each is 1 to 1000, of --clients or --streams")
    if given.precision is not None and not 0 < given.precision < 1:
        parser.error("--precision is above 0 and below 1")
    texts = LONG_TEXTS if given.long else TEXTS
    if given.texts is not None:
        try:
            texts = tuple(line for line in given.texts.read_text(encoding="utf-8").splitlines() if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"cannot read {given.texts}: {error}")
        if not texts:
            parser.error(f"{given.texts} has no line with text")
    surfaces: dict[str, tuple[Surface, ...]] = {name: (name,) for name in SURFACES}
    surfaces |= {"both": ("http", "websocket"), "all": SURFACES}
    load = Load(
        url=given.url.rstrip("/"), mode=mode, requests=given.requests, surfaces=surfaces[given.surface], texts=texts,
        models=tuple(given.model or (None,)), voice=given.voice, timeout=given.timeout, pattern=given.arrivals,
        burst=given.burst, limit=given.limit, seed=given.seed, each=given.each,
    )  # fmt: skip
    return load, getattr(given, mode) or [4.0]


def _measure(
    load: Load, levels: Sequence[float], knee: bool, precision: float | None
) -> tuple[list[Step], list[Trace], Knee | None]:
    steps: list[Step] = []
    last: list[Trace] = []

    def measure(level: float) -> bool:
        nonlocal last
        done, last = asyncio.run(run(load, level))
        steps.append(done)
        share = "no stream of several sentences" if done.all.continuity is None else f"{done.all.continuity:.1%}"
        # A long search that is stopped has said what it found.
        first = "".join(f", p{p} {1e3 * seconds:.0f} ms" for p, seconds in done.all.first.items())
        served = f"{done.all.served} of {done.requests} served"
        print(f"{level:g} {done.unit}: continuity {share}, {served}{first}, {done.seconds:.1f} s", file=sys.stderr)
        return done.good

    if not knee:
        for level in levels:
            measure(level)
        return steps, last, None
    most = 1_000.0 if load.mode != "rate" else 10_000.0
    found = find_knee(measure, levels[0], precision=precision, whole=load.mode != "rate", most=most)
    return sorted(steps, key=lambda each: each.level), last, found


def _text(steps: Sequence[Step], knee: Knee | None) -> str:
    place = report.machine()
    lines = [f"{place['name']}: {place['system']} {place['architecture']}, {place['cpus']} CPUs"]
    lines += [
        f"{each.level:g} {each.unit}: {each.requests} requests, {each.all.audio:.1f} s of audio, {each.seconds:.1f} s"
        for each in steps
    ]
    lines += ["", report.table(steps), "", report.views(steps)]
    first = steps[0].all.first
    if first:
        for each in steps[1:]:
            if each.all.first:
                ratio = each.all.first[99] / first[99]
                lines.append(f"first audio p99 at {each.level:g}: {ratio:.2f} times that at {steps[0].level:g}")
    if knee is not None:
        holds = "none" if knee.holds is None else f"{knee.holds:g}"
        breaks = "none" if knee.breaks is None else f"{knee.breaks:g}"
        lines.append(f"knee: keeps up at {holds} {steps[0].unit}, no longer at {breaks}")
    for each in steps:
        for group in each.surfaces:
            lines += [f"{group.surface}: {count} x {name}" for name, count in group.errors.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 0 when every request was served, 1 when some were not, 2 for wrong usage.

    A search for the knee ends with 0 when it found a level that was kept up: beyond it, requests fail.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    load, levels = _load(parser, given)
    host = urlsplit(load.url).hostname
    if urlsplit(load.url).scheme not in ("http", "https") or host is None:
        parser.error(f"--url must be an http:// or https:// address, not '{given.url}'")
    try:
        if not given.allow_remote and not is_loopback(host):
            parser.error(f"{host} is not this machine; --allow-remote if you may put load on it")
        httpx.get(f"{load.url}/readyz", timeout=5).raise_for_status()
    except (OSError, httpx.HTTPError) as error:
        print(f"load: no ready server at {load.url}: {error}", file=sys.stderr)
        return 1
    steps, traces, knee = _measure(load, levels, given.find_knee, given.precision)
    result: dict[str, object] = {
        "setup": asdict(load),
        "machine": report.machine(),
        "steps": [asdict(each) for each in steps],
        "knee": None if knee is None else asdict(knee),
    }
    text = _text(steps, knee)
    if given.save is not None:
        given.save.mkdir(parents=True, exist_ok=True)
        panels = plot.curve(steps) if len(steps) > 1 else plot.distribution(traces)
        (given.save / "report.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        (given.save / "report.txt").write_text(text + "\n", encoding="utf-8")
        (given.save / "report.svg").write_text(plot.svg(panels, f"Nightingale under load: {steps[0].unit}"), "utf-8")
    print(json.dumps(result, indent=2) if given.json else text)
    if knee is not None:
        return 0 if knee.holds is not None else 1
    return 1 if any(each.all.errors for each in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
