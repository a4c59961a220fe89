"""The check that weights are finite numbers: by numpy, on the bits as they lie in a file. It needs no array of MLX."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models import loading
from models.native.processors import cpu_count

Array = npt.NDArray[Any]

# Numbers that are checked at a time: what is computed of them stays in the processor's cache.
_CHUNK_SAMPLES = 1 << 17
# Numbers of a thread's turn, and most threads: the pages of a mapped file cost as much as the check.
_PART, _MAX_THREADS = 1 << 22, 4
# Bits of the exponent, all of which NaN and infinity have. The bits of bfloat16 are unsigned numbers to numpy.
_EXPONENTS = {"uint16": 0x7F80, "float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
# Names of floating-point types in safetensors' header, and numpy's.
_SAFETENSORS = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32, "F64": np.float64}


def broken(arrays: Mapping[str, Array]) -> list[str]:
    """Return one problem for each array, of floats or of bfloat16's bits in uint16, that holds NaN or infinity."""
    parts = [(name, part) for name in sorted(arrays) for part in _parts(arrays[name])]
    found = []
    pool = ThreadPoolExecutor(min(cpu_count(), _MAX_THREADS))
    try:
        for (name, _), is_finite in zip(parts, pool.map(_is_finite, [part for _, part in parts]), strict=True):
            loading.step()
            if not is_finite:
                found.append(name)
    finally:
        pool.shutdown(cancel_futures=True)  # a step's error ends the check
    return [f"{name} holds NaN or infinity" for name in dict.fromkeys(found)]


def _parts(array: Array) -> Iterator[Array]:
    """Divide the bits of an array of floats among threads."""
    if array.dtype.name in _EXPONENTS:
        bits = array.reshape(-1)
        for start in range(0, bits.size, _PART):
            yield bits[start : start + _PART]


def _is_finite(part: Array) -> bool:
    exponent, bits = _EXPONENTS[part.dtype.name], part.view(f"u{part.itemsize}")
    masked = np.empty(min(_CHUNK_SAMPLES, bits.size), bits.dtype)
    for start in range(0, bits.size, _CHUNK_SAMPLES):
        piece = bits[start : start + _CHUNK_SAMPLES]
        if np.bitwise_and(piece, exponent, out=masked[: piece.size]).max() == exponent:
            return False
    return True


def mapped(path: Path) -> memoryview:
    """Return the bytes of a file. Raises OSError, and ValueError for an empty file."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def safetensors_floats(path: Path) -> dict[str, Array]:
    """Map the floating-point arrays of a safetensors file by name, flat. Raises ValueError, KeyError or TypeError."""
    data = mapped(path)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8:start]))
    found = {}
    for name, tensor in header.items():
        kind = None if name == "__metadata__" else _SAFETENSORS.get(tensor["dtype"])
        if kind is not None:
            begin, end = tensor["data_offsets"]
            found[name] = np.frombuffer(data[start + begin : start + end], kind)
    return found
