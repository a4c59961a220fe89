"""Processes of peers that do the same work, measured in alternating rounds.

Each peer is a process of its own, so that neither its threads nor its allocator trouble another. Rounds alternate
between the peers, so that a noisy machine troubles all of them.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Commands = Mapping[str, Callable[..., Any]]
Rows = dict[str, dict[str, float]]


def memory_mb() -> dict[str, int]:
    """Return the megabytes of this process that are resident now, and the most that ever were."""
    status = Path("/proc/self/status")
    if not status.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"resident": peak >> 20, "peak": peak >> 20}
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return {"resident": int(lines["VmRSS"].split()[0]) >> 10, "peak": int(lines["VmHWM"].split()[0]) >> 10}


def _serve(make: Callable[..., Commands], arguments: Sequence[Any], pipe: Connection) -> None:
    commands = {"memory": memory_mb, **make(*arguments)}
    pipe.send("ready")
    while (asked := pipe.recv()) is not None:
        command, given = asked
        start = time.perf_counter()
        found = commands[command](*given)
        pipe.send(((time.perf_counter() - start) * 1e3, found))


class Peer:
    """A process that answers commands. `make`, called there with `arguments`, returns them; "memory" is one of all."""

    def __init__(self, name: str, make: Callable[..., Commands], *arguments: Any) -> None:
        self.name = name
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(make, arguments, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def time(self, command: str, *arguments: Any) -> tuple[float, Any]:
        """Return the milliseconds of a command, and its result. Raises EOFError if the process died."""
        self._pipe.send((command, arguments))
        found: tuple[float, Any] = self._pipe.recv()
        return found

    def ask(self, command: str, *arguments: Any) -> Any:
        """Return the result of a command. Raises EOFError if the process died."""
        return self.time(command, *arguments)[1]

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join(30)


def measure(peers: Sequence[Peer], work: Any, runs: int, warm: int = 2, tolerance: float = 0.0) -> tuple[Rows, Any]:
    """Measure how long each peer's "run" of `work` takes.

    Args:
        peers: They take turns.
        work: What each is given.
        runs: Rounds that count.
        warm: Rounds before them.
        tolerance: Share by which results that are numbers may differ from the first peer's.

    Returns:
        Median, least and most milliseconds of each peer, and the first one's result.

    Raises:
        SystemExit: Peers disagree on the result.
    """
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    results: dict[str, Any] = {}
    for round_number in range(runs + warm):
        for peer in peers:
            milliseconds, results[peer.name] = peer.time("run", work)
            if round_number >= warm:
                times[peer.name].append(milliseconds)
    (first, *others) = results.values()
    if any(other != first and not (tolerance and abs(other / first - 1) <= tolerance) for other in others):
        raise SystemExit(f"peers disagree on the result: {results}")
    rows = {name: {"median_ms": statistics.median(t), "min_ms": min(t), "max_ms": max(t)} for name, t in times.items()}
    return rows, first


def show(title: str, rows: Rows, base: str) -> None:
    """Print one table, with the ratio to the peer `base` where it ran."""
    print(f"\n{title}")
    whole = rows.get(base, {}).get("median_ms")
    for name, row in rows.items():
        ratio = f"  {whole / row['median_ms']:.2f}x {base}" if whole else ""
        spread = f"{row['min_ms']:9.1f} {row['median_ms']:9.1f} {row['max_ms']:9.1f} ms (min, median, max)"
        print(f"  {name:20s} {spread}{ratio}")
