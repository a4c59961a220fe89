"""Parts that the commands share: errors, types of arguments, the log, standard input."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any

from app.config import Settings
from app.errors import BodyTooLargeError

USAGE_ERROR = 2
INTERRUPTED = 130


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
