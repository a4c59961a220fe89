"""Keep the project from growing: count what a reader meets, and compare with the limits of `configs/house.toml`.

    python .ci/house.py size             exit status 1 if a number is above its limit, with what joined
    python .ci/house.py size --write     lower the limits to today's numbers; never raises one
    python .ci/house.py minutes FILE     print the steps of `.ci/run` with their bounds (a line of FILE: name, tab,
                                         seconds); exit status 1 if one took more than half as long again

Limits of `[reader]` only go down. Limits of `[lines]` may rise by 3 % of their `base`, by hand, with a reason.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "configs" / "house.toml"
MAX_GROWTH = 1.03
MAX_OVERRUN = 1.5
TRIES = 5
SUFFIXES = {"app": (".py",), "models": (".py", ".h", ".cpp"), "tests": (".py",)}

Names = dict[str, list[str]]


def request_names() -> Names:
    """Return the files, functions and value classes of one `POST /v1/audio/speech`.

    What other threads do meanwhile is counted, too: on a busy machine that may be work of the start.
    """
    # The kernels of the oldest processors, so that the way is the same on every machine.
    os.environ["NATIVE_KERNELS"] = "avx2"
    sys.path.insert(0, str(ROOT))
    from loadtest import trace_request

    trace = asyncio.run(trace_request.trace_all("Hello world."))["POST /v1/audio/speech"]
    paths = {code: Path(code.co_filename).relative_to(ROOT) for code in trace.functions}
    return {
        "request_files": sorted(trace.files),
        "request_functions": sorted(f"{path}:{code.co_qualname}:{code.co_firstlineno}" for code, path in paths.items()),
        "request_values": sorted(kind.__qualname__ for kind in trace.made if trace_request.is_value(kind)),
    }


def source_names() -> Names:
    """Return public class names that stand in several files of app/ and models/, the settings, and the dependencies."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in (*(ROOT / "app").rglob("*.py"), *(ROOT / "models").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path.relative_to(ROOT)))
    config = ast.parse((ROOT / "app" / "config.py").read_text())
    settings = next(node for node in config.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    fields = [
        node.target.id
        for node in settings.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return {
        "twin_class_names": sorted(name for name, files in places.items() if len(files) > 1),
        "settings": sorted(fields),
        "dependencies": sorted(project["dependencies"]),
    }


def lines() -> dict[str, int]:
    """Return the lines of app/ and tests/ (Python), and of models/ (Python and C++)."""
    return {
        folder: sum(
            len(path.read_bytes().splitlines()) for path in (ROOT / folder).rglob("*") if path.suffix in suffixes
        )
        for folder, suffixes in SUFFIXES.items()
    }


def functions_by_file(names: Names) -> Counter[str]:
    """Return how many functions of each file the request runs."""
    return Counter(name.partition(":")[0] for name in names["request_functions"])


def problems(limits: dict[str, Any], names: Names, counts: dict[str, int]) -> list[str]:
    """Return one message for each number above its limit."""
    kept = limits["names"] | {"request_files": limits["functions"]}
    grown = functions_by_file(names) - Counter(limits["functions"])
    joined = {key: sorted(set(names[key]) - set(listed)) for key, listed in kept.items()}
    joined["request_functions"] = [f"{count} of {path}" for path, count in sorted(grown.items())]
    result = []
    for key, limit in limits["reader"].items():
        if len(names[key]) > limit:
            which = f". These joined: {', '.join(joined[key])}" if joined.get(key) else ""
            result.append(f"{key}: {len(names[key])}, and at most {limit} are allowed{which}")
    for folder, row in limits["lines"].items():
        if counts[folder] > row["limit"]:
            result.append(f"{folder}/: {counts[folder]} lines, and at most {row['limit']} are allowed")
        if row["limit"] > row["base"] and not row.get("reason"):
            result.append(f"{folder}/: the limit of lines was raised from {row['base']} without a `reason` beside it")
        if row["limit"] > MAX_GROWTH * row["base"]:
            result.append(f"{folder}/: the limit of lines may be at most 3 % above its base of {row['base']}")
    return result


def written(limits: dict[str, Any], names: Names, counts: dict[str, int]) -> str:
    """Return the file of limits, with each limit lowered to today's number where that is less."""
    text = [LIMITS.read_text().partition("[reader]")[0] + "[reader]"]
    text += [f"{key} = {min(limit, len(names[key]))}" for key, limit in limits["reader"].items()]
    text += ["", "[lines]"]
    for folder, row in limits["lines"].items():
        limit, base = min(row["limit"], counts[folder]), min(row["base"], counts[folder])
        reason = f', reason = "{row["reason"]}"' if row.get("reason") and limit > base else ""
        text.append(f"{folder} = {{ limit = {limit}, base = {base}{reason} }}")
    text += ["", "# Bounds of the steps of `.ci/run`.", "[minutes]"]
    text += [f'"{step}" = {bound}' for step, bound in limits["minutes"].items()]
    text += ["", "# What some numbers of [reader] count, so that the check can say what joined.", "[names]"]
    for key in limits["names"]:
        text.append(f"{key} = [\n" + "".join(f'    "{name}",\n' for name in names[key]) + "]")
    text += ["", "# The files of the request, and how many of their functions it runs.", "[functions]"]
    text += [f'"{path}" = {count}' for path, count in sorted(functions_by_file(names).items())]
    return "\n".join(text) + "\n"


def size(*, write: bool) -> int:
    """Compare the numbers with their limits; return the exit status."""
    limits = tomllib.loads(LIMITS.read_text())
    fixed, counts = source_names(), lines()
    for _ in range(TRIES):
        names = request_names() | fixed
        found = problems(limits, names, counts)
        if not any(message.startswith("request_") for message in found):
            break
    for message in found:
        print(message)
    if write and not found:
        LIMITS.write_text(written(limits, names, counts))
    print(", ".join([f"{key} {len(names[key])}/{limit}" for key, limit in limits["reader"].items()]))
    print(", ".join([f"{folder} {counts[folder]}/{row['limit']} lines" for folder, row in limits["lines"].items()]))
    return bool(found)


def minutes(path: Path) -> int:
    """Print the steps of a run of the gate; return 1 if one took too long."""
    bounds: dict[str, float] = tomllib.loads(LIMITS.read_text())["minutes"]
    late, total = [], 0.0
    print(f"{'step':12} minutes  bound")
    for line in path.read_text().splitlines():
        name, seconds = line.split("\t")
        taken = float(seconds) / 60
        total += taken
        if taken > MAX_OVERRUN * bounds[name]:
            late.append(name)
        print(f"{name:12} {taken:7.1f}  {bounds[name]:5.1f}{'  exceeded by more than half' if name in late else ''}")
    print(f"{'all':12} {total:7.1f}  {sum(bounds.values()):5.1f}")
    return bool(late)


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("size").add_argument("--write", action="store_true")
    commands.add_parser("minutes").add_argument("file", type=Path)
    options = parser.parse_args()
    return size(write=options.write) if options.command == "size" else minutes(options.file)


if __name__ == "__main__":
    sys.exit(main())
