"""`nightingale mcp`: a server of the Model Context Protocol (MCP) on standard input and output.

It lets an assistant speak, translate, list voices and transcribe through a server that runs.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import signal
from contextlib import suppress

from app.cli.command import INTERRUPTED, USAGE_ERROR, CommandError
from app.cli.interrupt import run_interruptible
from app.cli.server_client import ServerClient, read_key
from app.config import Settings
from app.extras import needs

# Seconds in which calls that are broken off delete their files.
_CLEANING_SECONDS = 0.5


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve one client until it closes standard input; return 0. Raises CommandError and OSError."""
    if importlib.util.find_spec("mcp") is None:
        raise CommandError(needs("the MCP server", "mcp"))
    for name in ("output", "input"):
        folder = getattr(arguments, name)
        if folder is not None and not folder.is_dir():
            raise CommandError(f"--{name} {folder} is not a folder", USAGE_ERROR)
    run_interruptible(_serve(arguments, settings, read_key(arguments.key_file)))
    return 0


async def _serve(arguments: argparse.Namespace, settings: Settings, key: str | None) -> None:
    from app.cli.mcp_tools import Folders, Tools

    folders = Folders(output=arguments.output, input=arguments.input)
    async with ServerClient(arguments.url, key) as client:
        tools = Tools(client, folders, play=arguments.play, max_recording_bytes=settings.max_recording_bytes)
        serving = asyncio.ensure_future(tools.server().run_stdio_async())
        ended = asyncio.ensure_future(asyncio.wait({serving}))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.cancel)
        try:
            await ended
        except asyncio.CancelledError:
            # The library's thread waits for standard input, and nothing ends that: calls end, then the process.
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({serving}, timeout=_CLEANING_SECONDS)
            os._exit(INTERRUPTED)
        serving.result()
