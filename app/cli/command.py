"""Parts that the commands share: errors, options, the log, standard input."""

from __future__ import annotations

import argparse
import logging
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.config import Settings
from app.errors import BodyTooLargeError

USAGE_ERROR = 2
INTERRUPTED = 130
DEFAULT_URL = "http://127.0.0.1:8000"


class CommandError(Exception):
    """A command that cannot be carried out; the message is one line."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def print_failure(message: str, status: int = 1) -> int:
    """Print one line to stderr; return `status`."""
    print(f"nightingale: {' '.join(message.split())}", file=sys.stderr)
    return status


def print_unused(parts: Sequence[str]) -> None:
    """Print a line to stderr with the parts of a request that change nothing, if there are any."""
    if parts:
        print_failure(f"not used: {', '.join(parts)}")


@cache
def _commands() -> dict[str, Any]:
    """Return the commands of `commands.toml`."""
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


def add_group(commands: Any, name: str) -> Any:
    """Add the command `name`, which has actions; return argparse's object to which these are added."""
    parser = commands.add_parser(name, help=_commands()[name]["help"])
    return parser.add_subparsers(title="actions", metavar="ACTION", required=True)


def add_command(
    commands: Any, common: argparse.ArgumentParser, name: str, run: Callable[[argparse.Namespace, Settings], int]
) -> argparse.ArgumentParser:
    """Add a command, or an action such as "voices add", which `run` carries out; return its parser."""
    known = _commands()[name]
    action, parents = name.rpartition(" ")[2], [] if known.get("alone") else [common]
    parser: argparse.ArgumentParser = commands.add_parser(action, parents=parents, help=known["help"])
    for flags, values in known.get("options", {}).items():
        add_option(parser, flags, values)
    parser.set_defaults(run=run, computes=known.get("computes", False))
    return parser


def add_option(parser: argparse.ArgumentParser, flags: str, values: Mapping[str, Any] | None = None) -> None:
    """Add an option as `commands.toml` describes it; without `values` the shared one."""
    given = dict(values or _commands()["shared"][flags])
    if "range" in given:
        low, high = given.pop("range")
        given["type"] = integer(low, high) if isinstance(low, int) else number(low, high)
    if "kind" in given:
        given["type"] = {"path": Path, "url": server_url}[given.pop("kind")]
    parser.add_argument(*flags.split(), **given)


def server_url(text: str) -> str:
    """Return the address of a server without its last slash. Raises ArgumentTypeError."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username is not None:
        raise argparse.ArgumentTypeError(f"'{text}' is not an address such as {DEFAULT_URL}")
    return text.rstrip("/").removesuffix("/v1")


def integer(low: int, high: int) -> Any:
    """Return a type for argparse: a whole number from `low` to `high`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {low} to {high}")
        return value

    return parse


def number(low: float, high: float) -> Any:
    """Return a type for argparse: a number from `low` to `high`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low:g} to {high:g}")
        return value

    return parse


def configure_logging(settings: Settings) -> None:
    """Show warnings of the models (a missing BLAS costs minutes). The service's own reach the user as errors."""
    debug = settings.log_level == "debug"
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format="nightingale: %(message)s")
    if not debug:
        logging.getLogger("app").setLevel(logging.CRITICAL)


def read_stdin() -> str:
    """Return standard input, which is UTF-8. Raises CommandError."""
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"standard input is not UTF-8 (byte {error.start})", USAGE_ERROR) from None


def read_file(name: str, limit: int, setting: str = "max_recording_bytes") -> bytes:
    """Return the bytes of a file; `-` is standard input. Raises BodyTooLargeError and OSError.

    `setting` names the `limit`, in bytes.
    """
    if name == "-":
        data = sys.stdin.buffer.read(limit + 1)
    else:
        with open(name, "rb") as file:  # noqa: PTH123  (as it was given: the error quotes it)
            data = file.read(limit + 1)
    if len(data) > limit:
        raise BodyTooLargeError(f"{name} is too large; at most {limit} bytes are read ({setting})")
    return data
