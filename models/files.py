"""Files that others wrote: read, or copied, where they are files and not pipes or devices without an end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from models.contract import WeightsError

# Bytes of the largest file of a model, and of its configuration or vocabulary.
MAX_BYTES: Final = 8 << 30
MAX_JSON_BYTES: Final = 64 << 20
# Largest number of a configuration: of layers and heads, of tokens, and of anything else, such as a width. A network is
# built before its arrays are compared with it.
MAX_LAYERS: Final = 1 << 10
MAX_TOKENS: Final = 1 << 20
MAX_WIDTH: Final = 1 << 14
T = TypeVar("T")


def open_file(path: str | Path, most: int = MAX_BYTES, flags: int = 0) -> BinaryIO:
    """Open a file of at most `most` bytes. Raises OSError, also for anything else than a file."""
    # A pipe without a writer is not waited for.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags), "rb")
    found = os.fstat(file.fileno())
    regular = stat.S_ISREG(found.st_mode)
    if regular and found.st_size <= most:
        return file
    file.close()
    wrong = f"has more than {most} bytes" if regular else "is not a file"
    raise OSError(errno.EINVAL, f"{Path(path).name[:80]} {wrong}")


def read_file(path: str | Path, most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file of at most `most`. Raises OSError."""
    with open_file(path, most) as file:
        # `read(most)` would take memory for so many bytes first.
        return file.read(os.fstat(file.fileno()).st_size)


def read_json(path: str | Path) -> Any:
    """Return what a file of JSON holds. Raises OSError, and ValueError where it is no JSON, or nested too deeply."""
    try:
        return json.loads(read_file(path, MAX_JSON_BYTES).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_config(path: str | Path, family: str) -> dict[str, Any]:
    """Return the object that a config.json holds. Raises WeightsError."""
    try:
        values = read_json(path)
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: not a configuration of {family}: {error!r}") from error
    if not isinstance(values, dict):
        raise WeightsError(f"{path}: not a configuration of {family}: a JSON object is expected")
    return values


def check_values(values: Mapping[str, Any], required: Mapping[str, object], source: str | Path) -> None:
    """Raise WeightsError, which names `source`, where a value is there and not as required."""
    for key, wanted in required.items():
        if values.get(key, wanted) != wanted:
            raise WeightsError(f"{source}: {key} must be {wanted!r}, not {values[key]!r}")


def build_config(kind: type[T], values: Mapping[str, Any], source: str | Path) -> T:
    """Return a dataclass of `values`.

    Raises WeightsError, which names `source`, where one is missing, or a number is larger than any network's.
    """
    for key, value in values.items():
        tokens = MAX_TOKENS if "vocab" in key or "token" in key or "ctc" in key else MAX_WIDTH
        most = MAX_LAYERS if "layer" in key or "head" in key else tokens
        if isinstance(value, int) and value > most:
            raise WeightsError(f"{source}: {key[:80]} is {value}; at most {most} is read")
    try:
        return kind(**values)
    except TypeError as error:
        raise WeightsError(f"{source}: {error}") from error


def copy_file(source: Path, target: Path) -> None:
    """Copy a file. Raises OSError."""
    with open_file(source) as file, target.open("wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
