"""Tests that prove what rarely changes run when their inputs changed, and leave a stamp.

    python .ci/proofs.py check              list all proofs; exit status 1 if one is stale
    python .ci/proofs.py run [NAME ...]     run the stale proofs, or those named (`parity` names all of `parity.*`)
    python .ci/proofs.py run --all          run all of them
    python .ci/proofs.py slice              run a few proofs again, chosen by the number of commits

`configs/proofs.toml` defines the proofs. `configs/stamps.toml` has the stamps: the SHA-256 of the inputs with which a
proof last passed, the date, and the seconds that it took. Only `run` writes them, and only for a proof that passed and
whose inputs did not change meanwhile.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROOFS, STAMPS = ROOT / "configs" / "proofs.toml", ROOT / "configs" / "stamps.toml"
SLICE_SECONDS = 240
# Marks of tests that only a proof runs.
_PROVED = re.compile(r"mark\.(?:proof|parity|real)\b")
_TESTS = re.compile(r"tests/[\w/.*]+")


@dataclass(frozen=True)
class Proof:
    """A command that passes, and the files on which its result depends."""

    name: str
    run: str
    inputs: tuple[str, ...]

    @property
    def tests(self) -> list[str]:
        """The files and folders of tests that the command names."""
        return _TESTS.findall(self.run)


@cache
def files() -> tuple[str, ...]:
    """Return all files of the tree that git knows or does not ignore, sorted."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return tuple(sorted(name for name in set(names) if name and (ROOT / name).is_file()))


def matching(pattern: str) -> list[str]:
    """Return the files of the tree that match: `*` stands for any characters but `/`, `**` for any."""
    parts = re.split(r"(\*+)", pattern)
    found = re.compile("".join({"*": "[^/]*", "**": ".*"}.get(part, re.escape(part)) for part in parts))
    return [name for name in files() if found.fullmatch(name)]


def proofs() -> list[Proof]:
    """Return the proofs in the order of their file; `{name}` in an input stands for a list of `[inputs]`."""
    tables: dict[str, Any] = tomllib.loads(PROOFS.read_text())
    shared: dict[str, list[str]] = tables["inputs"]
    result = []
    for name, row in tables["proof"].items():
        patterns = [each for item in row["inputs"] for each in (shared[item[1:-1]] if item[0] == "{" else [item])]
        patterns += [test if test.endswith(".py") else f"{test}/**" for test in _TESTS.findall(row["run"])]
        result.append(Proof(name, row["run"], tuple(sorted(set(patterns)))))
    return result


def digest(proof: Proof) -> str:
    """Return the SHA-256 of the command and of the inputs: names, and bytes.

    An input is a pattern of file names, or `pyproject.toml:table,table` for tables of that file. Raises SystemExit for
    a pattern that no file matches.
    """
    state = hashlib.sha256(proof.run.encode())
    for pattern in proof.inputs:
        name, _, keys = pattern.partition(":")
        names = matching(name)
        if not names:
            raise SystemExit(f"{proof.name}: no file matches {pattern}")
        for each in names:
            content = (ROOT / each).read_bytes()
            if keys:
                tables = tomllib.loads(content.decode())
                content = json.dumps({key: tables[key] for key in keys.split(",")}, sort_keys=True).encode()
            state.update(f"\0{each}\0{len(content)}\0".encode() + content)
    return state.hexdigest()


def stamps() -> dict[str, dict[str, Any]]:
    """Return the stamps by the names of their proofs."""
    return tomllib.loads(STAMPS.read_text()) if STAMPS.exists() else {}


def write(proof: Proof, inputs: str, seconds: float) -> None:
    """Write the stamp of a proof that passed."""
    rows = stamps() | {
        proof.name: {"inputs": inputs, "date": f"{datetime.now(UTC):%Y-%m-%d}", "seconds": round(seconds)}
    }
    names = [each.name for each in proofs() if each.name in rows]
    lines = ["# Written by `python .ci/proofs.py run`, never by hand.\n"]
    for name in names:
        row = rows[name]
        lines.append(f'["{name}"]\ninputs = "{row["inputs"]}"\ndate = "{row["date"]}"\nseconds = {row["seconds"]}\n')
    STAMPS.write_text("\n".join(lines))


def is_stale(proof: Proof) -> bool:
    """Return whether the inputs differ from those with which the proof last passed."""
    return bool(stamps().get(proof.name, {}).get("inputs") != digest(proof))


def unproved() -> list[str]:
    """Return test files with tests that only a proof runs, and that no proof names."""
    places = [place for proof in proofs() for place in proof.tests]
    proved = {name for place in places for name in matching(place) + matching(f"{place}/**")}
    marked = [name for name in matching("tests/**/test_*.py") if _PROVED.search((ROOT / name).read_text())]
    return [name for name in marked if name not in proved]


def check() -> int:
    """Print the state of every proof; return 1 if one is stale, or a test belongs to none."""
    known, stale = stamps(), []
    for proof in proofs():
        stamp = known.get(proof.name)
        if is_stale(proof):
            stale.append(proof.name)
        state = "stale" if proof.name in stale else "passed"
        since = f"{stamp['date']}, {stamp['seconds']} s" if stamp else "never ran"
        print(f"  {proof.name:24} {state:7} {since}")
    for name in (missing := unproved()):
        print(f"  {name} has tests that only a proof runs, and no proof in configs/proofs.toml names it")
    if stale:
        print(
            f"Stale proofs: run `make proofs`, or `python .ci/proofs.py run {' '.join(stale)}`, and commit the stamps."
        )
    return bool(stale or missing)


def prove(proof: Proof, *, stamp: bool) -> bool:
    """Run one proof; return whether it passed. With `stamp`, write its stamp then."""
    print(f"\n-- {proof.name}: {proof.run}", flush=True)
    inputs, begun = digest(proof), time.monotonic()
    passed = subprocess.run(proof.run, shell=True, cwd=ROOT, check=False).returncode == 0  # noqa: S602  (our own file)
    seconds = time.monotonic() - begun
    files.cache_clear()
    if stamp and passed:
        if digest(proof) == inputs:
            write(proof, inputs, seconds)
        else:
            print(f"{proof.name}: its inputs changed while it ran, so that it gets no stamp")
    print(f"-- {proof.name}: {'passed' if passed else 'FAILED'} in {seconds:.0f} s", flush=True)
    return passed


def sliced() -> list[Proof]:
    """Return the proofs of this commit's slice: one, and those after it while their last times together allow it.

    A proof that takes longer than a slice is never in one: `make nightly` repeats it.
    """
    known = stamps()
    seconds = {proof: known.get(proof.name, {}).get("seconds", SLICE_SECONDS) for proof in proofs()}
    listed = [proof for proof in seconds if seconds[proof] <= SLICE_SECONDS]
    count = int(
        subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    )
    chosen, total = [], 0
    for offset in range(len(listed)):
        proof = listed[(count + offset) % len(listed)]
        total += seconds[proof]
        if chosen and total > SLICE_SECONDS:
            break
        chosen.append(proof)
    return chosen


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("check", "run", "slice"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="proofs to run, stale or not")
    parser.add_argument("--all", action="store_true", help="run all proofs")
    options = parser.parse_args()
    if options.command == "check":
        return check()
    if options.command == "slice":
        chosen = sliced()
    elif options.names:
        chosen = [proof for proof in proofs() if {proof.name, proof.name.split(".")[0]} & set(options.names)]
        if not chosen:
            parser.error(f"no such proof; they are: {', '.join(proof.name for proof in proofs())}")
    else:
        chosen = [proof for proof in proofs() if options.all or is_stale(proof)]
    failed = [proof.name for proof in chosen if not prove(proof, stamp=options.command == "run")]
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
