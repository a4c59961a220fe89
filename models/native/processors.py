"""Number of processors that this process may use."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from functools import cache
from pathlib import Path


def cpu_count() -> int:
    """Return the number of threads that this process may compute with.

    They are the processors that it may run on, within its quota, and within OMP_NUM_THREADS: Ray sets that to a
    replica's share.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if (quota := _own_quota()) is not None:
        allowed = min(allowed, max(1, math.ceil(quota)))
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(allowed, int(wanted)) if wanted.isdecimal() and int(wanted) else allowed


def cpu_quota(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return how many processors' time the control groups of this process may take; None: all.

    `groups` names them and `root` has their files. Each group is bound by the ones above it. Inside a container its own
    group is the root, and `groups` may have a name that is seen outside only.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        return None
    found: list[float | None] = []
    for _, controllers, name in (line for line in lines if len(line) == 3):
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers
        own = top / name.lstrip("/")
        found += [_quota_of(folder) for folder in (own, *own.parents) if folder.is_relative_to(top)]
    return min((quota for quota in found if quota is not None), default=None)


def _quota_of(folder: Path) -> float | None:
    """Return the quota of one control group, of either version, in processors."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        if (now := folder / "cpu.max").exists():
            quota, period = now.read_text().split()
            return None if quota == "max" else int(quota) / int(period)
        used = int((folder / "cpu.cfs_quota_us").read_text())
        return None if used < 0 else used / int((folder / "cpu.cfs_period_us").read_text())
    return None


_own_quota = cache(cpu_quota)
