"""Extras, the optional parts of an installation: their purpose, their presence, and their installation.

A package index has a stranger's package under this project's name. So no command and no message here names it: the
requirements of an extra are read from this installation's own metadata, or from its lock where the source tree has one.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.errors import ServiceError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

EXTRAS: Final = {
    "cuda": "computation on NVIDIA GPUs",
    "play": "gapless playing by `nightingale say`",
    "mcp": "tools for assistants by `nightingale mcp`",
    "ja": "speech in Japanese",
    "zh": "speech in Mandarin Chinese",
    "watermark": "Perth's inaudible mark in Chatterbox's speech",
    "otel": "traces to an OpenTelemetry collector",
    "cluster": "several processes behind one address, under Ray",
}
LOCKS: Final = Path(__file__).parents[1] / "configs" / "lock"
_COMMAND: Final = "app.main:main"


def needs(what: str, extra: str) -> str:
    """Return a message that `what` needs an extra, with the command that installs it."""
    return f"{what} needs the extra '{extra}'; install it with: nightingale extras install {extra}"


def add_arguments(actions: Any, common: argparse.ArgumentParser) -> None:
    """Add the commands `list` and `install` to `actions`, argparse's subparsers, with the options of `common`."""
    listed = actions.add_parser("list", parents=[common], help="every extra and whether it is installed")
    listed.set_defaults(run=list_extras)
    install = actions.add_parser("install", parents=[common], help="install what an extra needs, with pip")
    install.add_argument("extra", metavar="EXTRA", choices=EXTRAS, help=", ".join(EXTRAS))
    install.set_defaults(run=install_extra)


def list_extras(arguments: argparse.Namespace, settings: object) -> int:
    """Print every extra, and return 0."""
    for name, purpose in EXTRAS.items():
        print(f"{name:<9} {'installed' if is_installed(name) else 'absent':<9} {purpose}")
    print("install one with: nightingale extras install EXTRA")
    return 0


def install_extra(arguments: argparse.Namespace, settings: object) -> int:
    """Install an extra into this interpreter's environment, and return pip's exit status."""
    extra = arguments.extra
    if not requirements(extra):
        raise ServiceError(f"the extra '{extra}' needs nothing on this platform")
    if is_installed(extra):
        print(f"the extra '{extra}' is installed")
        return 0
    lock = LOCKS / f"extra-{extra}.txt"
    if lock.is_file():
        wanted = ["--require-hashes", "-r", str(lock)]
    else:
        wanted = [str(requirement) for requirement in requirements(extra)]
    if importlib.util.find_spec("pip") is None:
        line = shlex.join(["uv", "pip", "install", "--python", sys.executable, *wanted])
        raise ServiceError(f"this Python has no pip; with uv this installs the extra '{extra}': {line}")
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *wanted]
    status = subprocess.run(pip, check=False).returncode  # noqa: S603
    if status == 0:
        print(f"the extra '{extra}' is installed; a server that runs must be started again")
    return status


def is_installed(extra: str) -> bool:
    """Return whether everything that an extra needs is installed, in an accepted release."""
    needed = requirements(extra)
    return bool(needed) and all(map(_is_present, needed))


def requirements(extra: str) -> list[Requirement]:
    """Return the requirements of an extra on this platform. Raises ServiceError if Nightingale is not installed."""
    for result in metadata.distributions(name="nightingale"):
        # Another maker's package of that name may stand on the path, too.
        if any(point.value == _COMMAND for point in result.entry_points):
            return _requirements(result, extra)
    raise ServiceError("this copy of Nightingale is not installed; `make setup` in its folder does that")


def _requirements(distribution: metadata.Distribution, extra: str) -> list[Requirement]:
    from packaging.requirements import Requirement

    result = []
    for text in distribution.requires or ():
        requirement = Requirement(text)
        marker, requirement.marker = requirement.marker, None
        if marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            result.append(requirement)
    return result


def _is_present(requirement: Requirement) -> bool:
    try:
        result = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return False
    if not requirement.specifier.contains(result.version, prereleases=True):
        return False
    return all(_is_present(inner) for extra in requirement.extras for inner in _requirements(result, extra))
