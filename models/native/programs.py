"""Compilers and other programs that a build runs."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from models.native.processors import cpu_count

_POLL_SECONDS = 0.05
# Called again and again while a program runs: whoever watches this thread may be told that it is not stuck.
on_pause: Callable[[], None] | None = None


def pause() -> None:
    """Wait before the next look at what runs."""
    time.sleep(_POLL_SECONDS)
    if on_pause is not None:
        on_pause()


def run_all(commands: Sequence[Sequence[str]], deadline: float, folder: Path) -> None:
    """Run programs, as many at once as there are processors; none runs on, nor a child of it, when this returns.

    Their temporary files are in `folder`. Raises OSError with the first error that one prints, and at `deadline` (of
    `time.monotonic`).
    """
    waiting, running = [*commands], list[_Program]()
    try:
        while waiting or running:
            while waiting and len(running) < cpu_count():
                running.append(_Program(waiting.pop(0), folder))
            pause()
            for program in [each for each in running if each.ended]:
                running.remove(program)
                program.check()
            if running and time.monotonic() > deadline:
                raise OSError(f"{running[0].name} took too long")
    finally:
        for program in running:
            program.kill()


class _Program:
    """A running program in a group of its own, with what it prints as errors. It finds the package `models`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.name = command[0]
        packages = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
        self._printed = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (`check` and `kill` close it)
        self._process = subprocess.Popen(  # noqa: S603  (a compiler, or this interpreter)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._printed,
            # Messages in English: `check` looks for the word "error".
            env=os.environ
            | {"LC_ALL": "C", "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, packages))},
            process_group=0,
        )

    @property
    def ended(self) -> bool:
        """Whether the program runs no longer."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise OSError with the reason if the program, which has ended, failed."""
        with self._printed:
            if status := self._process.returncode:
                self._printed.seek(0)
                lines = self._printed.read().decode(errors="replace").splitlines()
                said = [line for line in lines if "error:" in line] or lines[-1:]
                raise OSError(f"{self.name} failed: {said[0] if said else f'exit status {status}'}")

    def kill(self) -> None:
        """End the program and its children."""
        with self._printed, suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
