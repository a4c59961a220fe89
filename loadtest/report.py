"""The report on a run: percentiles over the requests that were served, what was not served, and what players heard."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from loadtest.playback import Trace, play

PERCENTILES = (50, 95, 99)
# The server's names for the surfaces; SSE is the same endpoint as plain HTTP.
SERVER_SURFACES = {"openai": "http and sse", "websocket": "websocket"}

Percentiles = dict[int, float]


def percentiles(values: Iterable[float | None]) -> Percentiles:
    """Return the PERCENTILES of `values`; empty where there are none."""
    found = [value for value in values if value is not None]
    return {p: float(np.percentile(found, p)) for p in PERCENTILES} if found else {}


@dataclass(frozen=True, slots=True)
class Summary:
    """One surface's figures, or all of them together; seconds, percentiles by number.

    `first`, `total`: from when a request was due. `lag`: how late sentences came. `underrun`: silence a stream.
    `continuity`: share of the streams in several pieces that were never starved; one that broke off counts as starved,
    one in a single piece is left out, as it cannot be. None: there was none. `goodput`: requests a second that were
    served, never starved, and heard within `limit` seconds. `server_first`: the server's own first audio; `outside`:
    what the client waited besides. `on_top`: what the client waited besides the model's computing, for one-piece
    replies. `late`: how late this program sent.
    """

    surface: str
    served: int
    refused: int
    errors: dict[str, int]
    first: Percentiles
    lag: Percentiles
    total: Percentiles
    rtf: Percentiles
    underrun: Percentiles
    continuity: float | None
    streams: int
    goodput: float
    audio: float
    server_first: Percentiles
    outside: Percentiles
    on_top: Percentiles
    late: Percentiles


def summarize(surface: str, traces: Sequence[Trace], seconds: float, limit: float = 1.0) -> Summary:
    """Sum up `traces` of a run that took `seconds`. A request that was not served never counts as a fast answer."""
    served = [trace for trace in traces if trace.error is None]
    heard = [play(trace) for trace in served]
    several = [each.continuous for each in heard if each.gaps]
    # Broken off in the middle: its listener heard nothing any more.
    several += [False for trace in traces if trace.error is not None and trace.pieces]
    good = [
        trace
        for trace, each in zip(served, heard, strict=True)
        if each.continuous and trace.first is not None and trace.first <= limit
    ]
    return Summary(
        surface=surface,
        served=len(served),
        refused=sum(trace.refused for trace in traces),
        errors=dict(Counter(trace.error for trace in traces if trace.error is not None)),
        first=percentiles(trace.first for trace in served),
        lag=percentiles(lag for each in heard for lag in each.lags),
        total=percentiles(trace.total for trace in served),
        rtf=percentiles(trace.total / trace.audio for trace in served if trace.audio > 0),
        underrun=percentiles(each.underrun for each in heard if each.gaps),
        continuity=sum(several) / len(several) if several else None,
        streams=len(several),
        goodput=len(good) / seconds if seconds > 0 else 0.0,
        audio=sum(trace.audio for trace in served),
        server_first=percentiles(trace.server_first for trace in served),
        outside=percentiles(trace.outside for trace in served),
        on_top=percentiles(trace.on_top for trace in served),
        late=percentiles(trace.sent - trace.due for trace in traces),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One level of load: how many streams or clients, or requests a second; `all` surfaces together, and each.

    `server` has the percentiles of the server's own histograms over the same time.
    """

    level: float
    unit: str
    seconds: float
    requests: int
    all: Summary
    surfaces: list[Summary]
    server: dict[str, Percentiles] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether the server kept up: 99 % of streams never starved, 99 % of requests served."""
        unserved = sum(self.all.errors.values())
        if unserved > 0.01 * self.requests:
            return False
        # Texts of one sentence alone prove nothing.
        return self.all.continuity is not None and self.all.continuity >= 0.99


def step(
    level: float, unit: str, traces: Sequence[Trace], seconds: float, limit: float,
    server: dict[str, Percentiles] | None = None,
) -> Step:  # fmt: skip
    """Sum up one level."""
    names = list(dict.fromkeys(trace.surface for trace in traces))
    groups = [summarize(name, [trace for trace in traces if trace.surface == name], seconds, limit) for name in names]
    whole = summarize("all", traces, seconds, limit)
    return Step(level, unit, seconds, len(traces), whole, sorted(groups, key=lambda group: group.surface), server or {})


# The server's view.

Buckets = dict[str, dict[float, float]]


async def scrape(client: httpx.AsyncClient, url: str) -> Buckets:
    """Return the buckets of the server's first-audio histogram, by surface, cumulative; empty where it has none."""
    reply = await client.get(f"{url}/metrics")
    return buckets(reply.text) if reply.is_success else {}


def buckets(exposition: str) -> Buckets:
    """Return what `scrape` returns, from Prometheus text."""
    found: Buckets = {}
    for family in text_string_to_metric_families(exposition):
        if family.name != "nightingale_ttfa_seconds":
            continue
        for sample in family.samples:
            name = SERVER_SURFACES.get(sample.labels.get("surface", ""))
            if sample.name.endswith("_bucket") and name is not None:
                edges = found.setdefault(name, {})
                edge = float(sample.labels["le"])
                edges[edge] = edges.get(edge, 0.0) + sample.value
    return found


def between(before: Buckets, after: Buckets) -> dict[str, Percentiles]:
    """Return percentiles of the values between two scrapes, interpolated in the bucket, as Prometheus does."""
    found = {}
    for name, edges in after.items():
        counts = {edge: count - before.get(name, {}).get(edge, 0.0) for edge, count in sorted(edges.items())}
        total = max(counts.values(), default=0.0)
        if total > 0:
            found[name] = {p: _quantile(counts, p / 100 * total) for p in PERCENTILES}
    return found


def _quantile(counts: dict[float, float], rank: float) -> float:
    below, under = 0.0, 0.0
    for edge, count in counts.items():
        if count >= rank and count > under:
            return below if edge == float("inf") else below + (edge - below) * (rank - under) / (count - under)
        below, under = (below if edge == float("inf") else edge), count
    return below


# For people.


def _ms(values: Percentiles, p: int) -> str:
    return f"{values[p] * 1e3:.0f}" if values else "-"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def table(steps: Sequence[Step]) -> str:
    """Return a table of one line a surface and level, in milliseconds except for the real-time factor."""
    unit = steps[0].unit if steps else "level"
    heads = [unit, "surface", "served", "refused", "errors"]
    heads += [f"{name} p{p}" for name in ("first", "lag") for p in PERCENTILES]
    heads += ["underrun p99", "continuity", "good/s", "RTF p50", "on top p50", "late p99"]
    lines = [heads]
    for each in steps:
        groups = each.surfaces if len(each.surfaces) == 1 else [*each.surfaces, each.all]
        for group in groups:
            cells = [f"{each.level:g}", group.surface, str(group.served), str(group.refused)]
            cells.append(str(sum(group.errors.values()) - group.refused))
            cells += [_ms(values, p) for values in (group.first, group.lag) for p in PERCENTILES]
            cells += [_ms(group.underrun, 99), _share(group.continuity), f"{group.goodput:.2f}"]
            cells.append(f"{group.rtf[50]:.3f}" if group.rtf else "-")
            cells.append(f"{group.on_top[50] * 1e3:.1f}" if group.on_top else "-")
            lines.append([*cells, _ms(group.late, 99)])
    return _aligned(lines)


def views(steps: Sequence[Step]) -> str:
    """Return a table of first audio as the server and as its clients measure it, in milliseconds."""
    lines = [[steps[0].unit if steps else "level", "first audio as seen by", *(f"p{p}" for p in PERCENTILES)]]
    for each in steps:
        rows = {"clients": each.all.first, "the server, per reply": each.all.server_first}
        rows |= {"difference, per reply": each.all.outside}
        rows |= {f"the server's histogram, {name}": values for name, values in each.server.items()}
        for name, values in rows.items():
            cells = [f"{values[p] * 1e3:.1f}" if values else "-" for p in PERCENTILES]
            lines.append([f"{each.level:g}", name, *cells])
    return _aligned(lines)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def machine() -> dict[str, object]:
    """Return the facts of the clients' machine. Clients share the processors with a server on this machine."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "name": platform.node(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": usable,
        "python": platform.python_version(),
    }
