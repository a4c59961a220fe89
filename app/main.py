"""The command `nightingale`: serve, say, book, translate, transcribe, interpret, mcp, speech-dispatcher, bench, doctor;
voices (add, list, remove), lexicon (check), models (list, pull, verify, load, unload), extras (list, install), service
(install, uninstall, status).

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Every failure is one line on stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from app import __version__, extras, serve
from app.books import command as book
from app.cli import doctor, interpret, lexicon, mcp, models, say, service, transcribe, translate, voices
from app.cli.command import (
    INTERRUPTED,
    USAGE_ERROR,
    CommandError,
    add_command,
    add_group,
    configure_logging,
    print_failure,
)
from app.cli.interrupt import run_interruptible
from app.config import Settings, SettingsError, load_settings
from app.errors import InvalidRequestError, ServiceError
from app.screen_reader import command as screen_reader
from models.native import nvidia
from models.native.process import cache_folder
from models.private import FolderError


class _Parser(argparse.ArgumentParser):
    """argparse, with one line instead of the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return 0
    debug = False
    try:
        settings = load_settings(arguments.config)
        debug = settings.log_level == "debug"
        if getattr(arguments, "computes", False):
            # What models would find missing later, on another thread.
            cache_folder()
            if problem := nvidia.driver_problem():
                raise CommandError(problem)
        status: int = arguments.run(arguments, settings)
    except BrokenPipeError:
        # The reader of the output has gone; Python would complain once more while it exits.
        sys.stdout = None
        return 1
    except (Exception, KeyboardInterrupt) as error:
        result = _failure(error)
        if result is None and debug:
            raise
        return print_failure(*result or (f"{type(error).__name__}: {error} (NIGHTINGALE_LOG_LEVEL=debug shows where)",))
    return status


def _failure(error: BaseException) -> tuple[str, int] | None:
    """Return the message and the exit status of an error that a command may meet; None: it is a bug."""
    match error:
        case SettingsError() | FolderError():
            return str(error), USAGE_ERROR
        case CommandError():
            return str(error), error.status
        case InvalidRequestError():
            return error.message, USAGE_ERROR
        case ServiceError():
            # The person at this terminal may know the cause; a server's clients are not told it.
            cause = str(error.__cause__ or "")
            return (error.message if cause in error.message else f"{error.message} {cause}"), 1
        case KeyboardInterrupt():
            return "interrupted", INTERRUPTED
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}", 1
    return None


def _parser() -> _Parser:
    parser = _Parser(
        prog="nightingale",
        description="Low-latency local speech and translation.",
        epilog="To begin: `nightingale say 'Good evening.'` speaks, and `nightingale serve` runs the server, whose "
        "page is at http://127.0.0.1:8000 then. `nightingale COMMAND --help` says more of one command.",
    )
    parser.set_defaults(run=None, config=None)
    parser.add_argument("--version", action="version", version=f"nightingale {__version__}")
    common = _Parser(add_help=False)
    common.add_argument("--config", metavar="FILE", type=Path, help="settings file (TOML)")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    add_command(commands, common, "serve", serve.run)
    say.add_arguments(commands, common)
    book.add_arguments(commands, common)
    add_command(commands, common, "translate", translate.run)
    add_command(commands, common, "transcribe", transcribe.run)
    add_command(commands, common, "interpret", interpret.run)
    add_command(commands, common, "mcp", mcp.run)
    add_command(commands, common, "speech-dispatcher", screen_reader.run)

    actions = add_group(commands, "voices")
    add_command(actions, common, "voices add", voices.add_voice)
    add_command(actions, common, "voices list", voices.list_voices)
    add_command(actions, common, "voices remove", voices.remove_voices)
    add_command(add_group(commands, "lexicon"), common, "lexicon check", lexicon.check_lexicon)
    extras.add_arguments(add_group(commands, "extras"), common)
    actions = add_group(commands, "models")
    add_command(actions, common, "models list", models.list_models)
    add_command(actions, common, "models pull", models.pull_model)
    add_command(actions, common, "models import", models.import_files)
    add_command(actions, common, "models verify", models.verify_models)
    for action in ("load", "unload"):
        add_command(actions, common, f"models {action}", models.run_on_server).set_defaults(action=action)
    actions = add_group(commands, "service")
    add_command(actions, common, "service install", service.run_install)
    add_command(actions, common, "service uninstall", service.run_uninstall)
    add_command(actions, common, "service status", service.run_status)

    add_command(commands, common, "bench", _bench)
    add_command(commands, common, "doctor", doctor.run)
    return parser


def _bench(arguments: argparse.Namespace, settings: Settings) -> int:
    from app.cli.bench import run  # here, as `--version` and `models list` need none of its parts

    configure_logging(settings)
    report = run_interruptible(run(settings, model=arguments.model, voice=arguments.voice, repeat=arguments.repeat))
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report.as_table())
    return 0
