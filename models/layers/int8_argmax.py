"""Row of the largest of many inner products on the CPU, by a routine in C that is compiled once per machine (int8.c).

The plain definition is `vocabulary.argmax` of NLLB, which also runs where there is no C compiler, slower.
"""

from __future__ import annotations

import ctypes
import logging
from functools import cache

import numpy as np
import numpy.typing as npt

from models.backend import cpu_count
from models.layers.int8 import quantize_rows
from models.native import process

logger = logging.getLogger(__name__)

MOST_INPUTS = 64  # of `Int8Argmax.largest` in one call
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled routine; None where it cannot be compiled."""
    try:
        return process.compile_tuned("int8", __file__)
    except OSError as error:
        logger.info("no native routine for the CPU, translation is slower: %s", error)
        return None


class _Task(ctypes.Structure):
    """Fields of int8.c's `task`, in its order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "copy", "scale", "length", "error", "sums", "banned")),
        *((name, ctypes.c_void_p) for name in ("input", "coarse", "step", "rest", "norm", "most")),
        *((name, ctypes.c_long) for name in ("m", "n", "k")),
    )


class Int8Argmax:
    """Exact search for the largest of weight [N, K] x + banned [N], by a copy of 8 bits and few rows of `weight`.

    Not safe on two threads at once.
    """

    def __init__(self, weight: Floats, banned: Floats) -> None:
        found = library()
        if found is None:
            raise OSError("the native routine is not compiled on this machine")
        self._run = found.nightingale_int8_argmax
        self._run.restype = ctypes.c_long
        self._weight = np.ascontiguousarray(weight, np.float32)
        rows, width = self._weight.shape
        self._copy = np.empty((rows, width), np.int8)
        self._scale, self._length, self._error = (np.empty(rows, np.float32) for _ in range(3))
        self._sums = np.empty(rows, np.int32)
        for start in range(0, rows, 4096):  # in pieces: all at once, temporaries would be larger than the weights
            part = slice(start, start + 4096)
            self._quantize(part)
        self._banned = np.ascontiguousarray(banned, np.float32)
        self._scratch = np.empty(0, np.float32)
        self.full = 0

    def _quantize(self, part: slice) -> None:
        w = self._weight[part]
        copy, scale, sums = quantize_rows(w)
        self._copy[part], self._scale[part], self._sums[part] = copy, scale, sums
        near = copy * scale[:, None]
        self._length[part] = np.linalg.norm(near, axis=1)
        self._error[part] = np.linalg.norm(w - near, axis=1)

    def largest(self, x: Floats) -> Ints:
        """Return the row of each input's largest product, int32 [M], for x [M, K], M at most 64.

        `full` then counts the products that were computed in float32.
        """
        if len(x) > MOST_INPUTS:
            raise ValueError(f"{len(x)} inputs; at most {MOST_INPUTS} are screened at once")
        x = np.ascontiguousarray(x, np.float32)
        count, rows = len(x), len(self._weight)
        step = np.maximum(np.abs(x).max(axis=1), 1e-30) / np.float32(127)
        coarse = np.rint(x / step[:, None])
        rest = np.linalg.norm(x - coarse * step[:, None], axis=1).astype(np.float32)
        norm = np.linalg.norm(x, axis=1).astype(np.float32)
        shifted = (coarse + 128).astype(np.uint8)
        if self._scratch.size < count * rows:
            self._scratch = np.empty(count * rows, np.float32)
        best = np.empty(count, np.int32)
        given = (self._weight, self._copy, self._scale, self._length, self._error, self._sums, self._banned)
        made = (x, shifted, step.astype(np.float32), rest, norm, self._scratch)
        task = _Task(*(array.ctypes.data for array in (*given, *made)), count, rows, x.shape[1])
        self.full = self._run(ctypes.byref(task), ctypes.c_long(cpu_count()), best.ctypes.data_as(ctypes.c_void_p))
        return best
