"""Plant faults in a copy of the tree, one at a time, and report which of them the tests notice.

    python .ci/mutants.py [--file planted.toml] [--select TEXT] [--workers 2] [--report NEW.json] [--before OLD.json]

The faults are the rows of `tests/mutants/*.toml`. A row names the tests that have to notice it, and the fault: `find`
in `file` is replaced by `replace` (it occurs `count` times, once if not given), or the change that `commit` made to
app/ and models/ is taken back.

A fault is killed if these tests fail with it and pass without it. The exit status is 1 if a fault survives, or if a row
cannot be applied any more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

from proofs import files

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "mutants"
# Tests with these marks need an environment of their own.
SELECTED = "not parity"
TIMEOUT_SECONDS = 900
KILLED, SURVIVED = "killed", "survived"


@dataclass(frozen=True)
class Mutant:
    """One planted fault, and the tests that have to notice it."""

    name: str
    tests: tuple[str, ...]
    file: str = ""
    find: str = ""
    replace: str = ""
    count: int = 1
    commit: str = ""


class CannotApplyError(Exception):
    """The tree has changed so that the fault cannot be planted."""


def rows(path: Path) -> Iterator[Mutant]:
    """Return the faults of one file."""
    for number, row in enumerate(tomllib.loads(path.read_text())["mutant"], 1):
        where = row.get("commit") or row["file"]
        yield Mutant(f"{path.stem}-{number} {where}", tuple(row.pop("tests")), **row)


class Copy:
    """A copy of the tree, in which one fault is planted at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in files():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        self._clock = time.time()

    def run(self, mutant: Mutant | None, tests: tuple[str, ...]) -> str:
        """Return what the tests say with the fault planted: `killed`, `survived`, or why there is no answer."""
        changed = self._plant(mutant) if mutant else {}
        try:
            return self._test(tests)
        finally:
            for path, content in changed.items():
                self._write(path, content)

    def _plant(self, mutant: Mutant) -> dict[Path, bytes]:
        """Plant the fault, and return what the changed files held before."""
        if mutant.commit:
            patch = _git("diff", mutant.commit, f"{mutant.commit}^", "--", "app", "models")
            names = _git("diff", "--name-only", mutant.commit, f"{mutant.commit}^", "--", "app", "models").decode()
            paths = [self.folder / name for name in names.split()]
            before = {path: path.read_bytes() for path in paths if path.exists()}
            done = subprocess.run(["git", "apply", "-"], cwd=self.folder, input=patch, capture_output=True, check=False)
            if done.returncode:
                raise CannotApplyError(done.stderr.decode())
            for path in paths:
                if path.exists():
                    self._write(path, path.read_bytes())
            return before
        path = self.folder / mutant.file
        text = path.read_text() if path.exists() else ""
        if text.count(mutant.find) != mutant.count:
            raise CannotApplyError(f"`find` occurs {text.count(mutant.find)} times in {mutant.file}")
        self._write(path, text.replace(mutant.find, mutant.replace).encode())
        return {path: text.encode()}

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file with a time that no earlier version had, as Python compares it to know what it has compiled."""
        self._clock += 2
        path.write_bytes(content)
        os.utime(path, (self._clock, self._clock))

    def _test(self, tests: tuple[str, ...]) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            SELECTED,
            "-x",
            "-n",
            "0",
            "-q",
            "-p",
            "no:cacheprovider",
            *tests,
        ]
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return KILLED
        # Status 2 is a failure while the tests were collected: the program cannot be imported any more.
        last = (done.stdout.decode().strip().splitlines() or [""])[-1]
        if done.returncode == 0 and "passed" not in last:
            return f"no answer: {last}"  # all tests were skipped: a kernel that does not compile is not used
        return {0: SURVIVED, 1: KILLED, 2: KILLED}.get(done.returncode, f"no answer: {last}")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def measure(mutants: list[Mutant], workers: int) -> dict[str, str]:
    """Return the verdict of each fault by its name."""
    with tempfile.TemporaryDirectory() as scratch:
        copies: Queue[Copy] = Queue()
        for number in range(workers):
            copies.put(Copy(Path(scratch) / str(number)))

        def tried(mutant: Mutant | None, tests: tuple[str, ...]) -> str:
            copy = copies.get()
            begun = time.monotonic()
            try:
                verdict = copy.run(mutant, tests)
            except CannotApplyError as error:
                verdict = f"cannot be applied: {str(error).strip()}"
            finally:
                copies.put(copy)
            name = mutant.name if mutant else " ".join(tests)
            outcome = verdict if mutant else {SURVIVED: "pass", KILLED: "fail"}.get(verdict, verdict)
            print(f"{name}: {outcome} ({time.monotonic() - begun:.0f} s)", flush=True)
            return verdict

        with ThreadPoolExecutor(workers) as pool:
            lists = list(dict.fromkeys(mutant.tests for mutant in mutants))
            print("Without a fault:")
            plain = dict(zip(lists, pool.map(lambda tests: tried(None, tests), lists), strict=True))
            print("With one fault each:")
            sound = [mutant for mutant in mutants if plain[mutant.tests] == SURVIVED]
            verdicts = dict(
                zip((each.name for each in sound), pool.map(lambda each: tried(each, each.tests), sound), strict=True)
            )
    for mutant in mutants:
        verdicts.setdefault(mutant.name, f"its tests fail without it: {plain[mutant.tests]}")
    return verdicts


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", help="only the rows of this file of tests/mutants")
    parser.add_argument("--select", default="", help="only rows whose name contains this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", type=Path, help="write the verdicts as JSON")
    parser.add_argument("--before", type=Path, help="an earlier report: print what was killed then and is not now")
    options = parser.parse_args()
    tables = [ROWS / options.file] if options.file else sorted(ROWS.glob("*.toml"))
    mutants = [each for path in tables for each in rows(path) if options.select in each.name]
    verdicts = measure(mutants, options.workers)
    if options.report:
        options.report.write_text(json.dumps(verdicts, indent=1) + "\n")
    missed = {name: verdict for name, verdict in verdicts.items() if verdict != KILLED}
    before: dict[str, Any] = json.loads(options.before.read_text()) if options.before else {}
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} faults are killed")
    for name, verdict in missed.items():
        print(f"  {name}: {verdict}{' (killed before)' if before.get(name) == KILLED else ''}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
