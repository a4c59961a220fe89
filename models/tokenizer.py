"""Tokenizers of the package `tokenizers`, read so that whatever it raises is a WeightsError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer

from models.contract import WeightsError, WeightsMissingError


@contextmanager
def refused(as_what: str) -> Iterator[None]:
    """Raise WeightsError, which begins with `as_what`, for what the package raises in the block.

    That is Exception itself, and for a panic of its Rust code a BaseException that is no Exception.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise WeightsError(f"{as_what}: {error}") from error


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer.json. It neither cuts nor fills. Raises WeightsMissingError and WeightsError."""
    if not Path(path).is_file():
        raise WeightsMissingError(f"{path} does not exist")
    with refused(f"{path}: not a tokenizer"):
        found = Tokenizer.from_file(str(path))
    found.no_truncation()
    found.no_padding()
    return found
