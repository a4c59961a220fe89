"""`nightingale speech-dispatcher`: the module through which screen readers speak, and its installation."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from app.cli.command import USAGE_ERROR, CommandError
from app.cli.interrupt import run_interruptible
from app.cli.server_client import DEFAULT_URL, read_key, server_url
from app.config import Settings


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command to argparse."""
    command = commands.add_parser(
        "speech-dispatcher",
        parents=[common],
        help="speak for screen readers on Linux: --install tells speech-dispatcher of a running server",
    )
    command.add_argument("file", metavar="FILE", nargs="?", type=Path, help="its options; speech-dispatcher names it")
    command.add_argument("--install", action="store_true", help="write the files that speech-dispatcher looks for")
    command.add_argument("--default", action="store_true", help="with --install: make it the usual module")
    command.add_argument("--url", type=server_url, help=f"with --install: address of the server ({DEFAULT_URL})")
    command.add_argument("--key-file", metavar="FILE", type=Path, help="with --install: file with the server's API key")
    command.add_argument("--voice", help="with --install: the usual voice")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Install the module, or be it until the daemon ends it; return 0. Raises CommandError and OSError."""
    from app.screen_reader.install import ModuleOptions, install, read_options

    if arguments.install:
        if arguments.file is not None:
            raise CommandError("--install takes no FILE", USAGE_ERROR)
        given = {"url": arguments.url, "voice": arguments.voice}
        if arguments.key_file is not None:
            read_key(arguments.key_file)
            given["key_file"] = str(arguments.key_file.resolve())
        for text in given.values():
            if text is not None and ('"' in text or not text.isprintable()):
                raise CommandError(f"'{text}' cannot be written into a configuration file", USAGE_ERROR)
        options = ModuleOptions(**{name: value for name, value in given.items() if value is not None})
        for line in install(options, default=arguments.default):
            print(line)
        print("Restart speech-dispatcher, then try it: spd-say -o nightingale Hello")
        return 0
    if arguments.default or arguments.url or arguments.key_file or arguments.voice:
        raise CommandError("the options need --install", USAGE_ERROR)
    logging.basicConfig(level=logging.WARNING, format="nightingale: %(message)s")
    options = ModuleOptions() if arguments.file is None else read_options(arguments.file)
    run_interruptible(_serve(options))
    return 0


async def _serve(options: Any) -> None:
    from app.screen_reader.module import OutputModule
    from app.screen_reader.protocol import open_standard_channel

    key = read_key(None if options.key_file is None else Path(options.key_file))
    await OutputModule(await open_standard_channel(), options.url, key, options.voice).run()
