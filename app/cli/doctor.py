"""`nightingale doctor`: what this installation computes with, whether its models work, and how fast they are."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import subprocess
import sys
import tomllib
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from app import __version__, extras
from app.config import Settings

if TYPE_CHECKING:
    from app.cli.model_checks import ModelCheck

SECONDS = 60
Facts = dict[str, str | list[str]]


class _Warnings(logging.Handler):
    """Messages of the models' loggers that tell of something slow or broken."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the report; return 0, or 1 where it names a problem. Compiles the native kernels where they are missing."""
    warnings = _Warnings()
    logger = logging.getLogger("models")
    logger.addHandler(warnings)
    logger.propagate = False
    checks: list[ModelCheck] = []
    try:
        facts = _facts(settings)
        if not arguments.quick:
            from app.cli.model_checks import check_models

            checks = check_models(settings, arguments.seconds, _show_progress)
    finally:
        logger.removeHandler(warnings)
        logger.propagate = True
    from models.layers.kernels import agreement

    # Those that the models tried, and why some are left out. None on a CPU.
    facts["gpu kernels"] = [
        each.name if each.used else f"{each.name}: left out, {each.reason}" for each in agreement.report()
    ]
    problems = [*warnings.messages, *(problem for check in checks for problem in check.problems)]
    if arguments.json:
        models = {"checks": [asdict(check) for check in checks]} if checks else {}
        print(json.dumps(facts | models | {"problems": problems}, indent=2))
    else:
        print(_markdown(facts, checks, problems))
    return 1 if problems else 0


def _show_progress(model: str) -> None:
    if sys.stderr.isatty():
        print(f"trying {model} ...", file=sys.stderr)


def _facts(settings: Settings) -> Facts:
    from app.engine.catalog import Catalog
    from models.backend import device_name  # loads MLX
    from models.native import kernels
    from models.native.process import cache_folder

    catalog = Catalog(settings)
    return {
        "version": f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "python": sys.executable,
        "processor": _processor(),
        "device": device_name(),
        "kernels": kernels.description(),
        "cache": str(cache_folder()),
        "data": str(settings.data_dir),
        "models": [model.name for model in catalog.models() if model.status == "ready"],
        "extras": [name for name in extras.EXTRAS if extras.is_installed(name)],
    }


def _processor() -> str:
    """Return the name of the processor, or what Python knows of it."""
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        return done.stdout.strip() or platform.processor()
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def reference(facts: Facts) -> tuple[str, dict[str, dict[str, float]]]:
    """Return the machine whose published times are nearest, and its milliseconds by model and work."""
    known = tomllib.loads(files("app.cli").joinpath("reference_times.toml").read_text(encoding="utf-8"))
    result = next(
        (name for name, each in known.items() if each["match"] in f"{facts['device']} {facts['processor']}"), ""
    )
    return result, known[result]["models"] if result else {}


def _markdown(facts: Facts, checks: list[ModelCheck], problems: list[str]) -> str:
    """Return the report as Markdown, to read in a terminal or to paste into an issue."""
    lines = ["# Nightingale", "", "| | |", "|---|---|"]
    lines += [
        f"| {name} | {', '.join(value) or 'none' if isinstance(value, list) else value} |"
        for name, value in facts.items()
    ]
    if checks:
        machine, published = reference(facts)
        lines += [
            "",
            "## Models",
            "",
            "Times in ms, in this process, front end included. `worst` is of the warm runs.",
            "",
        ]
        heads = ["model", "load", "work", "first run", "median", "worst", "runs", "yields", "a token", "first audio"]
        lines += [_row([*heads, *([machine] if machine else [])]), _row(["---"] * (len(heads) + bool(machine)))]
        for check in checks:
            for times in check.times:
                cells = [
                    check.model,
                    f"{check.load:.1f} s",
                    times.work,
                    *(f"{value:.1f}" for value in (times.first, times.median, times.worst)),
                    str(times.runs),
                    f"{times.amount:.4g} {times.unit}",
                    *("" if value is None else f"{value:.1f}" for value in (times.token, times.first_audio)),
                ]
                known = published.get(check.model, {})
                kept = known.get("sentence" if times.unit == "tokens" else times.work)
                lines.append(_row([*cells, *(["" if kept is None else f"{kept:g}"] if machine else [])]))
    heard = [(check.model, one) for check in checks for one in check.heard]
    if heard:
        lines += ["", "## Voices, as the installed recognizer hears them", ""]
        lines += [_row(["model", "voice", "words wrong", "heard"]), _row(["---"] * 4)]
        lines += [_row([model, one.voice, f"{one.errors} of {one.words}", one.text]) for model, one in heard]
    lines += ["", "## Problems", "", *([f"- {problem}" for problem in problems] or ["none"])]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
