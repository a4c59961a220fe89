"""Device choice, CPU streams, memory and shapes: everything that differs between the machines MLX runs on.

Import MLX through this module (`from models.backend import mx`): `models.native.process` prepares the process before
MLX is loaded. `python -m models.backend` compiles what is needed and prints the choice.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ParamSpec, TypeVar, cast

from models.native import nvidia, process
from models.native.process import preload_blas
from models.native.processors import cpu_count
from models.private import FolderError

__all__ = ["cpu_count", "mx", "preload_blas"]  # of other modules

logger = logging.getLogger(__name__)

_MAX_STREAMS = 8
_CACHE_BYTES = 1 << 30
# A sentence of a few seconds needs less, and keeps its pages for the next one.
FREE_BYTES = 48 << 20
MANY_BYTES = 128 << 20
MAX_SHAPES = 64

P = ParamSpec("P")
T = TypeVar("T")


def _mlx_version() -> str:
    try:
        return version("mlx")
    except PackageNotFoundError:
        return "unknown"


try:
    process.cache_folder()
except FolderError as error:
    if __name__ == "__main__":
        sys.exit(str(error))
    raise
preload_blas()
_pages_kept = process.tune_malloc()
# On NVIDIA, MLX gathers launches into CUDA graphs that it rebuilds for every evaluation. For networks of many small
# kernels, single launches were measured 1.5 to 2 times faster (H200: 11.0 instead of 17.4 ms for a short sentence).
os.environ.setdefault("MLX_USE_CUDA_GRAPHS", "0")
# Plans of eight frame buckets exceed the 128 that MLX keeps: the first call after a bucket change took 60 ms more.
os.environ.setdefault("MLX_CUDA_CONV_CACHE_SIZE", "8192")
# MLX takes minutes to compile its CUDA kernels, and keeps them in a temporary folder, which others may write. Their
# names do not tell for which GPU they are: machines with different ones may share this user's home.
_kernels = f"{_mlx_version()}-{nvidia.architecture()}"
os.environ.setdefault("MLX_PTX_CACHE_DIR", str(process.cache_folder() / "ptx" / _kernels))

import mlx.core as mx  # noqa: E402  (after BLAS, as the module's docstring says)

_local = threading.local()


def constant(array: mx.array) -> mx.array:
    """Return the array, evaluated: where a constant is used it then costs no launch of its own."""
    mx.eval(array)
    return array


@cache
def on_cpu() -> bool:
    """Return whether MLX computes on the CPU. Layers then lower to native kernels, or to matrix products."""
    return bool(mx.default_device() == mx.Device(mx.cpu))


def token_model_dtype(name: str) -> mx.Dtype:
    """Return the type in which models of text tokens compute: float32 on a CPU; on a GPU the named one.

    `auto` is bfloat16 there: it has kernels of a decoder's step, and the models in the box write the same with it.
    """
    if on_cpu():
        return mx.float32
    return {"auto": mx.bfloat16, "bfloat16": mx.bfloat16, "float16": mx.float16, "float32": mx.float32}[name]


if on_cpu():
    # MLX would compile fused kernels by g++ at run time, and load them from a folder that others may write. Beside the
    # native kernels that gains nothing: the house voice takes 1.00 and S3Gen 0.97 of the time without.
    mx.disable_compile()

if process.blas_problem is not None and on_cpu():
    logger.warning("OpenBLAS is not in use (%s): synthesis on this CPU is about 20 times slower", process.blas_problem)


def device_name() -> str:
    """Return the name of this process's device, for logs and reports."""
    if on_cpu():
        return f"cpu ({platform.machine()}, {cpu_count()} cores, {'OpenBLAS' if preload_blas() else 'default BLAS'})"
    info = mx.device_info()
    return f"gpu ({info.get('device_name', 'unknown')})"


def cpu_streams() -> list[mx.Stream]:
    """Return streams that compute in parallel: one per core on the CPU (each has its own thread), one on a GPU.

    MLX streams belong to the thread that made them, so each thread gets its own.
    """
    found: list[mx.Stream] | None = getattr(_local, "cpu_streams", None)
    if found is None:
        first = mx.default_stream(mx.default_device())
        more = min(cpu_count(), _MAX_STREAMS) - 1 if on_cpu() else 0
        found = _local.cpu_streams = [first, *(mx.new_stream(mx.cpu) for _ in range(more))]
    return found


def release_thread() -> None:
    """End the calling thread's streams. A thread that used MLX calls it last.

    Only this joins a stream's own thread: a process that exits while one lives may abort (SIGABRT).
    """
    _local.cpu_streams = None
    mx.clear_streams()


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of MLX's allocator: held by arrays, kept for reuse, and the peak of those held."""

    active: int
    cache: int
    peak: int


def memory() -> MemoryUse:
    """Read MLX's allocator. Safe on any thread."""
    return MemoryUse(mx.get_active_memory(), mx.get_cache_memory(), mx.get_peak_memory())


def limit_cache(limit_bytes: int | None) -> None:
    """Bound the memory that MLX keeps for reuse, which grows with the number of distinct shapes.

    None stands for zero where the C library keeps freed pages, which arrays of all lengths share; else for 1 GiB, at
    most an eighth of the machine's memory.
    """
    if limit_bytes is None:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit_bytes = 0 if _pages_kept and on_cpu() else min(_CACHE_BYTES, machine // 8)
    mx.set_cache_limit(limit_bytes)


def give_back(*, rested: bool) -> None:
    """Return freed pages to the system where they grew past a bound. For a thread with nothing to compute.

    The bound is FREE_BYTES once the thread has `rested`. Before, it is MANY_BYTES, or the size of the models' arrays if
    that is more.
    """
    if _pages_kept:
        active = mx.get_active_memory() if on_cpu() else 0
        process.trim(FREE_BYTES if rested else max(MANY_BYTES, active), active)


def clear_cache() -> None:
    """Return all free memory to the system, on the computing thread: a model was dropped."""
    mx.clear_cache()
    if _pages_kept:
        process.trim(0, mx.get_active_memory() if on_cpu() else 0)


# MLX keeps a compiled function's trace for every shape of its arguments, as long as the function lives. A GPU has few
# shapes: lengths are padded to buckets there, as each new shape costs kernels or plans. On the CPU every length of a
# sentence is a shape of its own, and its traces take about a megabyte: an hour of different sentences would hold
# gigabytes. So the functions are dropped after many lengths. The next call makes them again, at some 10 ms a length.
_factories: list[Any] = []
_seen: set[Hashable] = set()


def compiled_cache(factory: Callable[P, T]) -> Callable[P, T]:
    """Cache the result of a function that compiles. Callers must call it each time, and keep no result."""
    made: Any = cache(factory)
    _factories.append(made)
    return cast("Callable[P, T]", made)


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Have MLX compile a function of arrays, whose traces are dropped as those of `compiled_cache`."""
    made = compiled_cache(lambda: mx.compile(function))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return made()(*args, **kwargs)

    return call


def note_shape(*shape: Hashable) -> None:
    """Register a shape before it is computed, on the computing thread; drop all traces after too many shapes."""
    if shape in _seen:
        return
    if len(_seen) >= MAX_SHAPES:
        _seen.clear()
        for made in _factories:
            made.cache_clear()
    _seen.add(shape)


def bucket(size: int, buckets: Sequence[int]) -> int:
    """Return the smallest of `buckets`, ascending, that holds `size`; beyond the last, it doubles."""
    last = buckets[-1]
    while last < size:
        last *= 2
    return next((candidate for candidate in buckets if candidate >= size), last)


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s: %(message)s")
    print(f"MLX {_mlx_version()} on {device_name()}")
