"""Weights of 8 bits on the CPU: products in C (int8.c) that replace MLX's BLAS call.

MLX's own quantized product on the CPU is scalar code, slower than float32. Here the weights stay in float32, and have
copies of 8 bits. The forwarding object before BLAS (`models.native.process`) recognizes a product with such a matrix by
its address. Each row of weights has one scale; each input row is rounded to 8 bits in the call.

`product_reference` is the plain definition of that product, which the tests compare with.
"""

from __future__ import annotations

import ctypes
import logging
from functools import cache

import numpy as np
import numpy.typing as npt

from models.backend import mx, on_cpu
from models.native import process

logger = logging.getLogger(__name__)

_Pointer = ctypes.c_void_p


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled routines, registered with the forwarding object; None where one is missing, or on a GPU."""
    blas = process.preload_blas()
    if blas is None or not on_cpu():
        return None
    try:
        found = process.compile_tuned("int8", __file__)
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
    """Return weight [N, K] with its rows in 8 bits [N, K], their scales [N] and the sums of the rounded rows [N]."""
    scale = (np.maximum(np.abs(weight).max(axis=1), 1e-30) / 127).astype(np.float32)
    copy = np.rint(weight / scale[:, None]).astype(np.int8)
    return copy, scale, copy.sum(axis=1, dtype=np.int32)


def product_reference(x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the product [M, N] that `Int8Weights` computes of x [M, K] and weight [N, K], with exact integers."""
    copy, scale, _ = quantize_rows(weight)
    step = np.abs(x).max(axis=1, keepdims=True).astype(np.float32) / np.float32(127)
    coarse = np.rint(x * (np.float32(1) / step)).astype(np.int64)
    product: npt.NDArray[np.float64] = (coarse @ copy.astype(np.int64).T) * (scale * step).astype(np.float64)
    return product


class Int8Weights:
    """Copy of one weight [N, K]. While this object lives, products x @ weight.T are computed from the copy.

    `weight` must be evaluated, contiguous and float32. Raises OSError where the routine is not available.
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
