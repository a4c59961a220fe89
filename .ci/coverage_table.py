"""Compare the coverage of lines and branches of app/ with the table tests/coverage.tsv.

    python .ci/coverage_table.py REPORT.json [--write]

REPORT.json is written by `coverage json`. A line of the table is a file, its statements and branches, and the share of
them that tests run, in percent. The exit status is 1 if a file lost more than a point. `--write` writes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "tests" / "coverage.tsv"
MAX_LOSS = 1.0


def measured(report: Path) -> dict[str, tuple[int, float]]:
    """Return the number of statements and branches, and the percentage of them that ran, by file."""
    rows = {}
    for name, file in json.loads(report.read_text())["files"].items():
        summary = file["summary"]
        count = summary["num_statements"] + summary["num_branches"]
        ran = summary["covered_lines"] + summary["covered_branches"]
        if name.startswith("app/") and count:
            rows[name] = count, 100 * ran / count
    return rows


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, metavar="REPORT.json")
    parser.add_argument("--write", action="store_true", help="write tests/coverage.tsv")
    options = parser.parse_args()
    now = measured(options.report)
    lines = [line.split("\t") for line in TABLE.read_text().splitlines()] if TABLE.exists() else []
    before = {name: float(share) for name, _, share in lines}
    lost = {name: now[name][1] for name in before.keys() & now.keys() if now[name][1] < before[name] - MAX_LOSS}
    for name, share in sorted(lost.items()):
        print(f"{name}: {before[name]:.1f} % before, {share:.1f} % now")
    total = sum(count for count, _ in now.values())
    print(
        f"app/: {sum(count * share for count, share in now.values()) / total:.2f} % of {total} statements and branches"
    )
    if options.write:
        TABLE.write_text("".join(f"{name}\t{count}\t{share:.1f}\n" for name, (count, share) in sorted(now.items())))
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
