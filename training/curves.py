"""Draw a run's `curves.csv`: python -m training.curves build/house/run/curves.csv curves.png"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # without a display
from matplotlib import pyplot as plt


def main(argv: Sequence[str] | None = None) -> None:
    """Draw every loss over the steps, and the learning rate."""
    parser = argparse.ArgumentParser(description="Draw a run's losses.")
    parser.add_argument("curves", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(argv)
    with options.curves.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in {"step", "seconds", "progress", "hours"}]
    steps = [int(row["step"]) for row in rows]
    columns = 4
    figure, axes = plt.subplots(-(-len(names) // columns), columns, figsize=(14, 8), layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for name, axis in zip(names, axes.flat, strict=False):
        axis.plot(steps, [float(row[name]) for row in rows], linewidth=1)
        axis.set(title=name, xlabel="step")
    figure.savefig(options.picture, dpi=70)


if __name__ == "__main__":
    main()
