"""`nightingale models`: list, pull and verify; load and unload in a server that runs.

Each function carries out one action and returns the exit status. Failures are raised as ServiceError.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from app.cli.command import INTERRUPTED, number
from app.cli.server_client import add_server_arguments
from app.config import Settings


def add_arguments(actions: Any, common: argparse.ArgumentParser) -> None:
    """Describe the actions to argparse."""
    listed = actions.add_parser("list", parents=[common], help="every model and whether it is installed")
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run=list_models)
    pull = actions.add_parser("pull", parents=[common], help="download a model's weights")
    pull.add_argument("name", metavar="MODEL")
    pull.add_argument("--endpoint", metavar="URL", help="hub to pull from (default: HF_ENDPOINT, or the public one)")
    pull.add_argument("--quiet", action="store_true", help="no progress bar")
    pull.set_defaults(run=pull_model)
    imported = actions.add_parser("import", parents=[common], help="install a model from files of other programs")
    imported.add_argument(
        "path", metavar="PATH", type=Path, help="ONNX export, CTranslate2 folder, .pt or official folder"
    )
    imported.add_argument("--model", metavar="MODEL", help="its name, where the files do not tell it")
    imported.add_argument("--replace", action="store_true", help="put it in the place of one that is installed")
    imported.set_defaults(run=import_files)
    verify = actions.add_parser("verify", parents=[common], help="check a model's files against their checksums")
    verify.add_argument("names", metavar="MODEL", nargs="*", help="default: every installed model")
    verify.set_defaults(run=verify_models)
    for action in ("load", "unload"):
        parser = actions.add_parser(action, parents=[common], help=f"have a server {action} a model")
        parser.add_argument("name", metavar="MODEL")
        add_server_arguments(parser, "the settings' host and port")
        parser.add_argument(
            "--timeout", metavar="SECONDS", type=number(0, 86_400), default=600.0, help="longest wait (default 600)"
        )
        parser.set_defaults(run=_on_server, action=action)


def _on_server(arguments: argparse.Namespace, settings: Settings) -> int:
    from app.cli.model_server import run  # here, as the other actions need no client of HTTP

    return run(arguments, settings)


def list_models(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print every model, and how those that are absent are installed."""
    from app.engine.catalog import Catalog

    catalog = Catalog(settings)
    defaults = (catalog.default(), catalog.default_translator(), catalog.default_recognizer())
    rows = [
        {
            "name": model.name,
            "kind": model.kind,
            "status": model.status,
            "default": model.name in defaults and model.status == "ready",
            "description": model.description,
            "license": model.license,
            "commercial_use": model.commercial_use,
            "aliases": list(model.aliases),
            "directory": str(catalog.directory(model.name)),
            "install": model.install_command,
            "hint": model.install_hint,
        }
        for model in catalog.models()
    ]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    width = max(len(model.name) for model in catalog.models())
    for row in rows:
        mark = "*" if row["default"] else " "
        use = "commercial use allowed" if row["commercial_use"] else "no commercial use"
        print(f"{mark} {row['name']:<{width}} {row['status']:<7} {row['description']}; {row['license']}; {use}")
        if row["status"] == "ready":
            print(f"  {row['directory']}")
        else:
            print(f"  install with: {row['install']}" if row["install"] else f"  {row['hint']}")
    print("* answers requests that name no model")
    return 0


def pull_model(arguments: argparse.Namespace, settings: Settings) -> int:
    """Download a model's weights. Raises ServiceError."""
    from app.engine.catalog import Catalog
    from app.engine.download import pull

    catalog = Catalog(settings)
    entry = catalog.entry(arguments.name)
    directory = catalog.directory(entry.name)
    if entry.noncommercial:
        # Before gigabytes are fetched, not after.
        print(f"{entry.name}: license {entry.license}; no commercial use", flush=True)
    try:
        done = pull(entry, directory, endpoint=arguments.endpoint, progress=not arguments.quiet)
    except KeyboardInterrupt:
        print("nightingale: interrupted; run the command again to go on from here", file=sys.stderr)
        return INTERRUPTED
    print(f"{entry.name}: {len(done.fetched)} files installed, {len(done.intact)} already in place, in {directory}")
    return 0


def import_files(arguments: argparse.Namespace, settings: Settings) -> int:
    """Convert and install a model. Raises ServiceError."""
    from app.engine.importing import import_model

    found = import_model(arguments.path, settings, arguments.model, replace=arguments.replace)
    print(f"{found.name}: installed from {found.form}")
    return 0


def verify_models(arguments: argparse.Namespace, settings: Settings) -> int:
    """Compare the files of models with their checksums."""
    from app.engine.catalog import Catalog

    catalog = Catalog(settings)
    names = arguments.names or [model.name for model in catalog.models() if model.status == "ready"]
    failed = 0
    for name in dict.fromkeys(catalog.resolve(name) for name in names):
        found = catalog.verify(name)
        wrong = found.wrong
        failed += bool(wrong)
        if found.foreign:
            such = next(check for check in wrong if check.state.startswith("wrong"))
            print(
                f"{name}: not the pinned files: a community checkpoint? {len(wrong)} of {len(found.files)} differ, "
                f"such as {such.path} ({such.state})"
            )
            continue
        for check in wrong:
            print(f"{name}: {check.path}: {check.state}")
        if not wrong:
            unpinned = sum(check.state == "not pinned" for check in found.files)
            note = f", {unpinned} of them whole but without a pinned checksum" if unpinned else ""
            print(f"{name}: {len(found.files)} files intact{note}")
        elif (command := catalog.entry(name).install_command) is not None:
            print(f"{name}: repair with: {command}")
    return 1 if failed else 0
