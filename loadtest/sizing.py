"""Compute the replicas that a number of live streams needs, from measurements of one replica.

    python -m loadtest.sizing --streams-per-replica 12 --memory 0.8 [--streams 100,1000,10000] [--spare-machines 1]

`--streams-per-replica` is the knee of one replica: the most live streams at which 99 % never fall silent (`make load
ARGS="--streams 1 --find-knee --long"`). Streams are shared out over machines evenly; with the spare ones gone, no
replica has more than `--headroom` of its knee. A table in Markdown; nothing here was measured.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

# Bytes a second for a listener to 16-bit PCM at 24 kHz.
PCM_BYTES = 48_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured limits of a replica and of a machine's proxy.

    `knee` in live streams a replica; `memory` in GB a replica; `proxy` in live streams a proxy, None: not measured.
    """

    knee: float
    memory: float | None = None
    proxy: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Choices of the operator. `headroom` in (0, 1]; `per_machine` replicas; `spare` machines that may fail."""

    headroom: float = 0.7
    per_machine: int = 1
    spare: int = 1
    stream_bytes: int = PCM_BYTES


@dataclass(frozen=True, slots=True)
class Size:
    """Resources needed. `per_replica` and `per_proxy` in streams with all machines up; `network` in Mbit/s a machine.

    `proxies_hold`: whether a proxy was measured to carry what it would with the spare machines gone; None: unknown.
    """

    streams: int
    replicas: int
    machines: int
    per_replica: float
    per_proxy: float
    memory: float | None
    network: float
    proxies_hold: bool | None


def size(streams: int, measured: Measured, policy: Policy) -> Size:
    """Return the replicas and machines for `streams`. Raises ValueError for a replica that carries no whole stream."""
    usable = math.floor(measured.knee * policy.headroom)
    if usable < 1:
        raise ValueError(f"{policy.headroom:g} of a knee of {measured.knee:g} is not one stream")
    # A replica carries whole streams, and a machine whole replicas.
    busy = math.ceil(math.ceil(streams / usable) / policy.per_machine)
    machines = busy + policy.spare
    replicas = machines * policy.per_machine
    return Size(
        streams=streams,
        replicas=replicas,
        machines=machines,
        per_replica=streams / replicas,
        per_proxy=streams / machines,
        memory=None if measured.memory is None else measured.memory * policy.per_machine,
        network=streams / machines * policy.stream_bytes * 8 / 1e6,
        proxies_hold=None if measured.proxy is None else streams / busy <= measured.proxy,
    )


def table(sizes: Sequence[Size]) -> str:
    """Return a Markdown table of one line a size."""
    lines = [
        "| live streams | replicas | machines | a replica's streams | a proxy's | a machine's memory | and network |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in sizes:
        memory = "not given" if each.memory is None else f"{each.memory:.1f} GB"
        holds = {None: " (not measured)", True: "", False: " (too many)"}[each.proxies_hold]
        lines.append(
            f"| {each.streams:,} | {each.replicas:,} | {each.machines:,} | {each.per_replica:.1f} "
            f"| {each.per_proxy:.0f}{holds} | {memory} | {each.network:.1f} Mbit/s |"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sizing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams-per-replica", type=float, required=True, metavar="N", help="the measured knee")
    parser.add_argument("--streams", default="100,1000,10000", metavar="N[,N]", help="default %(default)s")
    parser.add_argument("--headroom", type=float, default=0.7, help="share of the knee that is used (default 0.7)")
    parser.add_argument("--replicas-per-machine", type=int, default=1, metavar="N", help="default 1: one a device")
    parser.add_argument("--spare-machines", type=int, default=1, metavar="N", help="that may be gone (default 1)")
    parser.add_argument("--memory", type=float, metavar="GB", help="of one replica, measured")
    parser.add_argument("--streams-per-proxy", type=float, metavar="N", help="most that one proxy carries, measured")
    parser.add_argument("--stream-bytes", type=int, default=PCM_BYTES, metavar="N", help="a second (default: PCM)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 2 for wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if not (0 < given.headroom <= 1 and given.replicas_per_machine >= 1 and given.spare_machines >= 0):
        parser.error(
            "--headroom is above 0 and at most 1, --replicas-per-machine at least 1, --spare-machines at least 0"
        )
    measured = Measured(given.streams_per_replica, given.memory, given.streams_per_proxy)
    policy = Policy(given.headroom, given.replicas_per_machine, given.spare_machines, given.stream_bytes)
    try:
        sizes = [size(int(part), measured, policy) for part in given.streams.split(",")]
    except ValueError as error:
        parser.error(str(error))
    print(table(sizes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
