"""Compiled functions, and an end to what MLX keeps of them.

MLX keeps a compiled function's trace for every shape that it was called with, as long as the function lives. On a GPU
shapes are few, as all are padded to buckets. On the CPU every length of a sentence is a shape of its own, which leaves
about a megabyte behind: an hour of different sentences would hold gigabytes. So the functions are dropped, with their
traces, when many lengths have been seen, and made anew by whoever calls next, at some 10 ms for each length.
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
    """`functools.cache` for what makes compiled functions: callers ask each time, and hold none of them."""
    made: Any = cache(factory)
    _factories.append(made)
    return cast("Callable[P, T]", made)


def note_shape(*shape: Hashable) -> None:
    """Say what is about to be computed, on the thread that computes; drops all traces when there were too many."""
    if shape in _seen:
        return
    if len(_seen) >= MOST_SHAPES:
        _seen.clear()
        for made in _factories:
            made.cache_clear()
    _seen.add(shape)
