"""`nightingale doctor`: what this installation computes with, and what keeps it from being faster."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sys
from typing import Any

from app import __version__, extras
from app.config import Settings


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command to argparse."""
    doctor = commands.add_parser("doctor", parents=[common], help="show the device, the kernels, and what is missing")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=run, computes=True)


class _Warnings(logging.Handler):
    """Messages of the models' loggers that tell of something slow or broken."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the report; return 0, or 1 where it names a problem. Compiles the native kernels where they are missing."""
    problems = _Warnings()
    logger = logging.getLogger("models")
    logger.addHandler(problems)
    logger.propagate = False
    try:
        report = _report(settings)
    finally:
        logger.removeHandler(problems)
        logger.propagate = True
    if arguments.json:
        print(json.dumps(report | {"problems": problems.messages}, indent=2))
    else:
        for name, value in report.items():
            print(f"{name:<8} {', '.join(value) or 'none' if isinstance(value, list) else value}")
        for problem in problems.messages:
            print(f"problem  {problem}")
    return 1 if problems.messages else 0


def _report(settings: Settings) -> dict[str, str | list[str]]:
    from app.engine.catalog import Catalog
    from models.backend import device_name  # loads MLX
    from models.native import kernels
    from models.native.process import cache_folder

    catalog = Catalog(settings)
    return {
        "version": f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "python": sys.executable,
        "device": device_name(),
        "kernels": kernels.description(),
        "cache": str(cache_folder()),
        "data": str(settings.data_dir),
        "models": [model.name for model in catalog.models() if model.status == "ready"],
        "extras": [name for name in extras.EXTRAS if extras.is_installed(name)],
    }
