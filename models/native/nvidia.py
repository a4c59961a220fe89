"""Facts of the GPU that MLX uses first, and its memory, by NVIDIA's driver. Nothing here needs MLX, or a driver."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.metadata import distributions

_DRIVER = "libcuda.so.1"
# Packages with MLX's library for CUDA.
_LIBRARIES = ("mlx-cuda-12", "mlx-cuda-13")

# CUdevice_attribute's values.
_PROCESSORS, _MAJOR, _MINOR = 16, 75, 76
# CUmem_advise's values, and the processor's number among the devices.
_PREFERRED_LOCATION, _ACCESSED_BY, _HOST = 3, 5, -1


@cache
def _attribute(code: int) -> int | None:
    """Return a number that describes the first GPU; None without a driver or a GPU."""
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError:
        return None
    found, device = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    return None if driver.cuDeviceGetAttribute(ctypes.byref(found), code, device) else found.value


def driver_problem() -> str | None:
    """Return why MLX cannot be loaded here: its CUDA package is installed, and there is no driver; None: it can be."""
    if not any(True for name in _LIBRARIES for _ in distributions(name=name)):
        return None
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as error:
        return (
            f"MLX is installed for NVIDIA GPUs, and there is no driver ({error}): install it, start a container with "
            "--gpus all, or use an installation for processors"
        )
    return None


def processors() -> int:
    """Return the number of multiprocessors; 0 without a GPU."""
    return _attribute(_PROCESSORS) or 0


def architecture() -> str | None:
    """Return the architecture for which MLX compiles its kernels, such as sm_90a; None without a GPU."""
    major, minor = _attribute(_MAJOR), _attribute(_MINOR)
    if major is None or minor is None:
        return None
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def clusters() -> bool:
    """Return whether blocks of a kernel can form clusters, which reach each other's shared memory: Hopper and newer."""
    return (_attribute(_MAJOR) or 0) >= 9


def keep_on_host(address: int, size: int) -> bool:
    """Keep memory that CUDA manages in the host's, where the first GPU reads and writes it; return whether that is so.

    The memory, `size` bytes from `address` on, is whole pages, which no other allocation shares. The calling thread
    must have used CUDA before. Memory that CUDA cannot move is left as it is.
    """
    try:
        advise = ctypes.CDLL(_DRIVER).cuMemAdvise
    except (OSError, AttributeError):
        return False
    advise.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    return not advise(address, size, _PREFERRED_LOCATION, _HOST) and not advise(address, size, _ACCESSED_BY, 0)
