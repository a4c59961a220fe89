"""Weights of 8 bits on the CPU: products with them in C (int8.c), in the place of the BLAS call MLX makes.

MLX's own quantized product on the CPU is scalar code, slower than float32. Here the weights stay where they are, in
float32, and have copies of 8 bits; the forwarding object that stands before BLAS (`models.native`) recognizes a product
with such a matrix by its address. Each row has one scale, inputs are rounded to 8 bits as they come.
"""

from __future__ import annotations

import ctypes
import logging
from functools import cache

import numpy as np
import numpy.typing as npt

from models import native
from models.backend import mx, on_cpu

logger = logging.getLogger(__name__)

_Pointer = ctypes.c_void_p


@cache
def library() -> ctypes.CDLL | None:
    """The compiled routines, known to the forwarding object; None where one of the two is missing, or on a GPU."""
    blas = native.preload_blas()
    if blas is None or not on_cpu():
        return None
    try:
        found = native.compile_tuned("int8", __file__)
    except OSError as error:
        logger.info("no native routine for weights of 8 bits: %s", error)
        return None
    found.nightingale_int8_register.argtypes = (*[_Pointer] * 4, ctypes.c_long, ctypes.c_long)
    found.nightingale_int8_register.restype = ctypes.c_long
    found.nightingale_int8_forget.argtypes = (_Pointer,)
    blas.nightingale_replace_products(ctypes.cast(found.nightingale_int8_product, _Pointer))
    return found


def quantize_rows(
    weight: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """weight [N, K] -> its rows in 8 bits [N, K], their scales [N] and the sums of what was rounded [N]."""
    scale = (np.maximum(np.abs(weight).max(axis=1), 1e-30) / 127).astype(np.float32)
    copy = np.rint(weight / scale[:, None]).astype(np.int8)
    return copy, scale, copy.sum(axis=1, dtype=np.int32)


class Int8Weights:
    """The copy of one weight [N, K]: while this lives, products x @ weight.T are computed from it.

    Raises OSError where that is not possible. `weight` must be evaluated, contiguous and float32.
    """

    def __init__(self, weight: mx.array) -> None:
        found = library()
        if found is None:
            raise OSError("the native routine for weights of 8 bits is not available on this machine")
        self._library = found
        self._weight = np.array(weight, copy=False)
        self._arrays = quantize_rows(self._weight)
        pointers = [array.ctypes.data for array in (self._weight, *self._arrays)]
        if not found.nightingale_int8_register(*pointers, *self._weight.shape):
            raise OSError("too many matrices have weights of 8 bits")
        self._address = pointers[0]

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            self._library.nightingale_int8_forget(self._address)
