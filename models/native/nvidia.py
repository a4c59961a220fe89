"""Facts of the GPU that MLX uses first, from NVIDIA's driver. Nothing here needs MLX, or a driver."""

from __future__ import annotations

import ctypes
from functools import cache

# CUdevice_attribute's values.
_PROCESSORS, _MAJOR, _MINOR = 16, 75, 76


@cache
def _attribute(code: int) -> int | None:
    """Return a number that describes the first GPU; None without a driver or a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    found, device = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    return None if driver.cuDeviceGetAttribute(ctypes.byref(found), code, device) else found.value


def processors() -> int:
    """Return the number of multiprocessors; 0 without a GPU."""
    return _attribute(_PROCESSORS) or 0


def architecture() -> str | None:
    """Return the architecture for which MLX compiles its kernels, such as sm_90a; None without a GPU."""
    major, minor = _attribute(_MAJOR), _attribute(_MINOR)
    if major is None or minor is None:
        return None
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
