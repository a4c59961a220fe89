"""Calls of `models.backend`. The server starts before MLX is imported, which another thread may be doing now."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Hardware:
    """Device of MLX, and the instructions and threads of the native kernels ("mlx": none are in use), in words."""

    device: str
    kernels: str


def call_backend(name: str, **named: object) -> Any:
    """Call a function of `models.backend` and return its result; None while nothing has imported all of it."""
    function = getattr(sys.modules.get("models.backend"), name, None)
    return None if function is None else function(**named)


def free_memory() -> None:
    """Collect what refers to itself, and have MLX and the system take back what nothing refers to."""
    gc.collect()
    call_backend("clear_cache")


def active_memory() -> int | None:
    """Return the bytes of MLX's arrays; None while MLX is not imported."""
    memory = call_backend("memory")
    return None if memory is None else int(memory.active)


def hardware() -> Hardware | None:
    """Return what the models compute with; None while nothing has imported MLX."""
    if "models.backend" not in sys.modules:
        return None
    from models.backend import device_name
    from models.native.kernels import description

    return Hardware(device_name(), description())
