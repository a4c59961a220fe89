"""`nightingale models`: list, pull and verify; load and unload in a server that runs.

Each function carries out one action and returns the exit status. Failures are raised as ServiceError.
"""

from __future__ import annotations

import argparse
import json
import sys

from app.cli.command import INTERRUPTED
from app.config import Settings


def run_on_server(arguments: argparse.Namespace, settings: Settings) -> int:
    """Have a server load or unload a model. Raises CommandError and OSError."""
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
