"""Compare this project's time with its peers' against the ratios kept in results/gate.json, on this processor.

    python loadtest/gate.py [--keep] [--runs 7]

A ratio is the median of this project divided by that of a peer in the same run, so a slow or busy machine changes it
little. Kokoro has the real weights of `make real`, NLLB random ones. A ratio more than 15 % above its kept one fails.
Ratios are kept for each set of instructions of the native kernels; `--keep` writes those of this run, as a maintainer
decides.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from loadtest.kokoro_peers import TEXTS

KEPT = Path(__file__).with_name("results") / "gate.json"
ALLOWED = 1.15
SECONDS = 1800

Ratios = dict[str, float]


def run(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script of this folder with `--json`; return its report. Raises SystemExit where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        path = Path(__file__).with_name(script)
        command = [sys.executable, str(path), *arguments, "--json", str(report)]
        done = subprocess.run(command, check=False, timeout=SECONDS)
        if done.returncode:
            raise SystemExit(f"{script} failed")
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def ratios_of(title: str, rows: dict[str, dict[str, float]]) -> Ratios:
    """Return the ratio of each of our rows to each peer's, by "title: ours / peer"."""
    ours = {name: row["median_ms"] for name, row in rows.items() if name.startswith("nightingale")}
    peers = {name: row["median_ms"] for name, row in rows.items() if not name.startswith("nightingale")}
    return {f"{title}: {name} / {peer}": ours[name] / peers[peer] for name in ours for peer in peers}


def measure(runs: int) -> Ratios:
    """Return the ratios of Kokoro-82M with real weights, and of NLLB-600M with random ones at full size."""
    found: Ratios = {}
    speech = run("kokoro_peers.py", "--real", "build/real", "--runs", str(runs), "--bfloat16", "--onnx")
    for text in TEXTS:
        found |= ratios_of(f"Kokoro-82M, {text[:20]}", speech[text]["peers"])
    translation = run("nllb_peers.py", "--bits", "8", "--runs", str(runs))
    for title in ("one", "batch"):
        found |= ratios_of(f"NLLB-600M, {title}", translation[title])
    return found


def worse(found: Ratios, kept: Ratios) -> list[str]:
    """Return a line for each kept ratio that is missing now, or more than ALLOWED times as large."""
    lines = [f"{name}: not measured" for name in kept if name not in found]
    for name, ratio in found.items():
        if name in kept and ratio > kept[name] * ALLOWED:
            lines.append(f"{name}: {ratio:.2f} instead of {kept[name]:.2f}")
    return lines


def main() -> None:
    """Measure, print, compare; exit with 1 where a ratio is worse, with 2 where none is kept for this processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the ratios of this run instead of comparing")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()

    from models.native import kernels

    instructions = kernels.description().partition(",")[0] + (" and bfloat16" if kernels.has_bfloat16() else "")
    everything: dict[str, Ratios] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found = measure(options.runs)
    kept = everything.get(instructions, {})
    print(f"\nRatios of medians to the peers' ({instructions}); less is better")
    for name, ratio in found.items():
        print(f"  {name:70s} {ratio:.2f}" + (f"  (kept: {kept[name]:.2f})" if name in kept else ""))
    if options.keep:
        everything[instructions] = {name: round(ratio, 3) for name, ratio in found.items()}
        KEPT.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
        return
    if not kept:
        print(f"No ratios are kept for {instructions}; --keep writes these.", file=sys.stderr)
        raise SystemExit(2)
    lines = worse(found, kept)
    for line in lines:
        print(line, file=sys.stderr)
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
