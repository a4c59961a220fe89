"""Arrays of 32-bit numbers on their way from the host to a GPU, and back.

On NVIDIA, MLX's own way is memory whose pages move to the side that touches them. The GPU waits up to 0.2 ms for an
array of the host, and the host for each page of a result. Later that memory serves another result, which waits, too.
Here pages stay with the host, where the GPU reads and writes them. For the one thread that owns MLX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from models.backend import bucket, mx, on_cpu
from models.layers.kernels.agreement import usable
from models.layers.kernels.device import THREADS, Kernel, gpu, launch
from models.native import nvidia

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint32]

_ALIGNED_WORDS = 64  # of each array of an upload
_MIN_WORDS = 1 << 14  # of shared memory: all of it for an upload; a larger one takes MLX's way
_UPLOADS = 4  # under way at once
_BLOCKS = 64  # of a copy, at most
_DTYPES = {"i": mx.int32, "I": mx.uint32, "f": mx.float32}
_HOST_DTYPES = {mx.int32: np.int32, mx.uint32: np.uint32, mx.float32: np.float32}

_COPY = f"for (int i = BLOCK_X * {THREADS} + THREAD; i < words_shape[0]; i += BLOCKS_X * {THREADS}) "
_UPLOAD = Kernel("nightingale_upload", ("words",), ("arrived",), _COPY + "arrived[i] = words[i];", in_place=True)
_DOWNLOAD = Kernel(
    "nightingale_download",
    ("words", "onto"),
    ("done",),
    _COPY + "((GLOBAL uint *)onto)[i] = words[i];\nif (BLOCK_X == 0 && THREAD == 0) done[0] = 1;",
    in_place=True,
)


@dataclass(slots=True, eq=False)
class _Shared:
    """Memory of the host that the GPU reads and writes in place, as an array of MLX and as the host's.

    `arrived` is the last upload that was read from it.
    """

    array: mx.array
    memory: Words
    arrived: mx.array | None = None


_free: dict[int, list[_Shared]] = {}  # by words: memory that no download holds


def upload(*arrays: Array) -> list[mx.array]:
    """Return arrays of int32, uint32 or float32 as MLX's, on a GPU parts of one."""
    if on_cpu():
        return [mx.array(array) for array in arrays]
    starts = [0, *accumulate(array.size + -array.size % _ALIGNED_WORDS for array in arrays)]
    words = np.zeros(starts[-1], dtype=np.uint32)
    for array, start in zip(arrays, starts, strict=False):
        words[start : start + array.size] = array.reshape(-1).view(np.uint32)
    joined = _uploaded(words) if _shares() and words.size <= _MIN_WORDS else mx.array(words)
    return [
        joined[start : start + array.size].view(_DTYPES[array.dtype.char]).reshape(array.shape)
        for array, start in zip(arrays, starts, strict=False)
    ]


@contextmanager
def downloaded(array: mx.array) -> Iterator[Array]:
    """Compute an array of int32, uint32 or float32; give its numbers, of which no view may outlive the context."""
    if _shares():
        with _downloaded(array) as found:
            yield found
    else:
        yield np.asarray(array)


def _uploaded(words: Words) -> mx.array:
    """Return words [N], N from 1 to `_MIN_WORDS`, as an array of MLX, through shared memory."""
    shared = next(_uploads())
    if shared.arrived is not None:
        mx.eval(shared.arrived)
    shared.memory[: words.size] = words
    outputs = [(words.shape, mx.uint32)]
    (shared.arrived,) = launch(_UPLOAD, [shared.array[: words.size]], outputs, _blocks(words.size))
    return shared.arrived


@contextmanager
def _downloaded(array: mx.array) -> Iterator[Array]:
    """Give the numbers of an array in shared memory."""
    words = mx.contiguous(array).reshape(-1).view(mx.uint32)
    size = bucket(words.size, (_MIN_WORDS,))
    free = _free.setdefault(size, [])
    shared = free.pop() if free else _shared(size)
    try:
        mx.eval(launch(_DOWNLOAD, [words, shared.array], [((1,), mx.int32)], _blocks(words.size)))
        yield shared.memory[: words.size].view(_HOST_DTYPES[array.dtype]).reshape(array.shape)
    finally:
        free.append(shared)


def _blocks(words: int) -> tuple[int, int, int]:
    return max(1, min(_BLOCKS, -(-words // THREADS))), 1, 1


@cache
def _uploads() -> cycle[_Shared]:
    """Return the memory of uploads, in turns."""
    return cycle([_shared(_MIN_WORDS) for _ in range(_UPLOADS)])


def _shared(words: int) -> _Shared:
    array = mx.zeros(words, dtype=mx.uint32)
    memory = np.asarray(array)  # brings it to pages that move
    nvidia.keep_on_host(memory.ctypes.data, memory.nbytes)
    return _Shared(array, memory)


def _shares() -> bool:
    """Return whether such memory works here. Elsewhere, arrays take MLX's way."""
    return gpu() == "cuda" and usable("memory shared with the host", _differences, 0.0)


def _differences() -> Sequence[float]:
    differences = []
    for size in (1, 1000, _MIN_WORDS):
        words = np.arange(size, dtype=np.uint32)
        with _downloaded(_uploaded(words)) as found:
            differences.append(float(not np.array_equal(found, words)))
    return differences
