"""`nightingale service`: the server as a service of systemd or launchd: install, uninstall, status."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from app.cli.command import CommandError
from app.cli.launchd import Launchd
from app.cli.service_program import MARK, ServerProgram
from app.cli.systemd import Systemd
from app.config import Settings


def run_install(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the definition and start the service, or print the definition. A second run changes nothing."""
    manager = _manager(arguments.user)
    program = ServerProgram.of_this_installation(arguments.config)
    content = manager.definition(program)
    if arguments.print:
        sys.stdout.write(content.decode())
        return 0
    manager.check()
    manager.check_program(program)
    changed = _write(manager.path, content)
    log = manager.start(changed)
    print(f"{manager.path}: {'installed' if changed else 'unchanged'}; the service is started")
    print(f"Its log: {log}")
    return 0


def run_uninstall(arguments: argparse.Namespace, settings: Settings) -> int:
    """Stop the service and remove its definition. Models, voices and settings stay."""
    manager = _manager(arguments.user)
    manager.check()
    if not _is_ours(manager.path):
        print(f"{manager.path}: not installed")
        return 0
    manager.stop()
    manager.path.unlink()
    manager.forget()
    print(f"{manager.path}: removed; models, voices and settings stay")
    return 0


def run_status(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print whether the service is installed and runs; return 0 if it runs, else 1."""
    manager = _manager(arguments.user)
    if not _is_ours(manager.path):
        print(f"{manager.path}: not installed")
        return 1
    runs, words = manager.state()
    print(f"{manager.path}: installed, {words}")
    return 0 if runs else 1


def _manager(user: bool) -> Systemd | Launchd:
    """Return the service manager of this platform. Raises CommandError."""
    known: dict[str, type[Systemd | Launchd]] = {"linux": Systemd, "darwin": Launchd}
    if sys.platform not in known:
        raise CommandError(f"services are known for Linux (systemd) and macOS (launchd), not for {sys.platform}")
    return known[sys.platform](user)


def _is_ours(path: Path) -> bool:
    """Return whether there is a definition. Raises CommandError for a file that `install` did not write."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_file() or MARK.encode() not in path.read_bytes():
        raise CommandError(f"{path} was not written by `nightingale service install`: move it away first")
    return True


def _write(path: Path, content: bytes) -> bool:
    """Write the definition whole or not at all; return whether it differs from what was there. Raises CommandError."""
    if _is_ours(path) and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(handle, 0o644)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return True
