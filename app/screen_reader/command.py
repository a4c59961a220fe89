"""`nightingale speech-dispatcher`: the module through which screen readers speak, and its installation."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from app.cli.command import USAGE_ERROR, CommandError
from app.cli.interrupt import run_interruptible
from app.cli.server_client import read_key
from app.config import Settings


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
