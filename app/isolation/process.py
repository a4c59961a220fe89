"""The server's side of a process that may die: start it, speak to it through pipes, end it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from app.isolation.limits import READY

# Folder of the package `app`, which the program imports: this one, whatever else is installed.
_ROOT: Final = str(Path(__file__).parents[2])
_RUN: Final = (
    "import runpy, sys; program, root = sys.argv[1:]; root in sys.path or sys.path.insert(0, root); "
    "runpy.run_path(program, run_name='__main__')"
)


class IsolatedProcess:
    """Program that reads requests from its input and writes replies to its output.

    One thread starts the program and waits for it. Another may end it meanwhile.
    """

    def __init__(self, program: str) -> None:
        """Take the path of the program, which starts later."""
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._killed = False
        self._lock = threading.Lock()

    @property
    def killed(self) -> bool:
        """Whether `kill` was called."""
        return self._killed

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the program, unless it runs. Does not wait for its imports. Raises OSError."""
        with self._lock:
            if self._process is None and not self._killed:
                # A session of its own: Ctrl-C is for the server.
                self._process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-P", "-c", _RUN, self._program, _ROOT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )

    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Start the program and return its input and output. Waits for its imports. Raises OSError."""
        self.start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise OSError("it was given up")
        if not self._ready and process.stdout.read(len(READY)) != READY:
            raise OSError("it ended before its first reply")
        self._ready = True
        return process.stdin, process.stdout

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[threading.Event]:
        """Kill the program after `seconds`, unless the block ends earlier. The event says that it came to that."""
        overdue = threading.Event()

        def kill() -> None:
            overdue.set()
            self.kill()

        watchdog = threading.Timer(seconds, kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield overdue
        finally:
            watchdog.cancel()
            # It may fire this moment. Later it must not: the program may do other work by then.
            watchdog.join()

    def kill(self) -> None:
        """End the program at once. The work that it does fails."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> int | None:
        """Kill the program, wait for its end, and return its exit status: None if it never ran."""
        self.kill()
        process = self._process
        if process is None:
            return None
        status = process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        return status


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """Return the next `size` bytes of a pipe. Raises EOFError where it ends before."""
    data = file.read(size)
    if len(data) < size:
        raise EOFError("it ended before its reply")
    return data
