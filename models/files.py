"""Files that others wrote: read, or copied, where they are files and not pipes or devices without an end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

# Bytes of the largest file of a model, and of its configuration or vocabulary.
MAX_BYTES: Final = 8 << 30
MAX_JSON_BYTES: Final = 64 << 20


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


def copy_file(source: Path, target: Path) -> None:
    """Copy a file. Raises OSError."""
    with open_file(source) as file, target.open("wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
