"""Steps of a load: between two of them the thread may turn to other work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_local = threading.local()


@contextmanager
def steps(between: Callable[[], None]) -> Iterator[None]:
    """Have `between` called after each step of what this thread loads in the block. An error of it ends the load."""
    before = getattr(_local, "between", None)
    _local.between = between
    try:
        yield
    finally:
        _local.between = before


def step() -> None:
    """Note the end of a step, such as the reading of one array."""
    between: Callable[[], None] | None = getattr(_local, "between", None)
    if between is not None:
        between()
