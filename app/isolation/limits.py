"""Limits of a process that reads what strangers send: memory, CPU time, no file opened or written, no core dumped.

The process calls `enter` after its imports, and `Limits.begin` before each piece of work.
"""

from __future__ import annotations

import math
import mmap
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

# Written once, after the imports.
READY: Final = b"+"
WATCH_SECONDS: Final = 0.02
NICENESS: Final = 5


class MemoryWatch(threading.Thread):
    """Thread that ends the process in the middle of its work, once its parent is gone or its memory is too large.

    It watches the memory for macOS, whose kernel does not hold a process to RLIMIT_AS.
    """

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self.working = threading.Event()
        self.most = math.inf
        self._parent = parent
        self._at_start = peak_memory()

    def run(self) -> None:
        """Watch, and sleep while there is no work."""
        while self.working.wait():
            if os.getppid() != self._parent or peak_memory() - self._at_start > self.most:
                os._exit(1)
            time.sleep(WATCH_SECONDS)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of this process, and the pipes to its parent."""

    requests: BinaryIO
    replies: BinaryIO
    watch: MemoryWatch
    address_space_at_start: int

    def begin(self, memory: int, cpu_seconds: float) -> None:
        """Allow `memory` bytes beside those at the start, and `cpu_seconds` from now on, before SIGPROF ends it."""
        if self.address_space_at_start:
            limit(resource.RLIMIT_AS, self.address_space_at_start + memory)
        # RLIMIT_CPU counts from the start of the process, by ticks, from which other clocks drift on a busy machine.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        self.watch.most = memory
        self.watch.working.set()

    def end(self) -> None:
        """End a piece of work: the process waits for the next."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.watch.working.clear()


def enter() -> ProcessLimits:
    """Take the pipes, forbid files, and tell the parent that this process is ready."""
    parent = os.getppid()
    # Speech has a higher priority.
    os.nice(NICENESS)
    # A service manager sends SIGTERM to every process. The server finishes its work, and ends this one.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The end of the CPU time: a parent that ignores this signal would hand that on.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A library that prints must break neither the replies nor the server's log.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    watch = MemoryWatch(parent)
    watch.start()
    # Threads reserve address space: the limit counts from here.
    used = address_space()
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        resource.setrlimit(kind, (0, 0))
    replies.write(READY)
    replies.flush()
    return ProcessLimits(requests, replies, watch, used)


def peak_memory() -> int:
    """Return the most memory that this process had resident, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def address_space() -> int:
    """Return the address space that is in use, in bytes; 0 where there is no /proc."""
    with suppress(OSError), open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * mmap.PAGESIZE
    return 0


def limit(kind: int, soft: int) -> None:
    """Set a soft limit, as far as the hard one lets it."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def has_memory(size: int) -> bool:
    """Return whether `size` bytes are left: less are where a piece of work leaked."""
    try:
        mmap.mmap(-1, size).close()
    except (OSError, MemoryError):
        return False
    return True
