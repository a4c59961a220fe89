"""Caches of compiled functions, with a bound on their memory.

MLX keeps a compiled function's trace for every shape of its arguments, as long as the function lives. A GPU has few
shapes, as all are padded to buckets. On the CPU every length of a sentence is a shape of its own, and its traces take
about a megabyte: an hour of different sentences would hold gigabytes. So after many lengths the functions are dropped,
with their traces. The next call makes them again, at some 10 ms for each length.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

MOST_SHAPES = 64

_factories: list[Any] = []
_seen: set[Hashable] = set()


def compiled_cache(factory: Callable[P, T]) -> Callable[P, T]:
    """Cache the result of a function that compiles. Callers must call it each time, and keep no result."""
    made: Any = cache(factory)
    _factories.append(made)
    return cast("Callable[P, T]", made)


def note_shape(*shape: Hashable) -> None:
    """Register a shape before it is computed, on the computing thread; drop all traces after too many shapes."""
    if shape in _seen:
        return
    if len(_seen) >= MOST_SHAPES:
        _seen.clear()
        for made in _factories:
            made.cache_clear()
    _seen.add(shape)
