"""Device choice, BLAS preload, lanes and memory: everything that differs between the machines MLX runs on.

Import MLX through this module (`from models.backend import mx`), so that BLAS is in place before MLX is loaded:
MLX's Linux CPU wheel links the reference BLAS, and calls `cblas_sgemm` as a dynamic symbol that an earlier library
may provide. `scipy-openblas32` carries OpenBLAS under prefixed names; a forwarding shared object, compiled once per
machine into the user's cache folder, gives it the plain ones (about 60 times faster products).

`python -m models.backend` builds that object and says what was chosen.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = [
    "MemoryUse",
    "cpu_count",
    "device_name",
    "lanes",
    "limit_cache",
    "memory",
    "mx",
    "on_cpu",
    "preload_blas",
    "release_thread",
]

logger = logging.getLogger(__name__)

_GEMM_TYPES = {"sgemm": ("float", "float"), "dgemm": ("double", "double"), "cgemm": ("const void *", "void")}
_MAX_LANES = 8


def _shim_source() -> str:
    """C source of the forwarding object: CBLAS's gemm prototypes, and a count of calls for the tests."""
    lines = ["static volatile long calls;", "long nightingale_blas_calls(void) { return calls; }"]
    for name, (scalar, element) in _GEMM_TYPES.items():
        head = "int order, int ta, int tb, int m, int n, int k"
        typed = (
            f"{head}, {scalar} alpha, const {element} *a, int lda, const {element} *b, int ldb, "
            f"{scalar} beta, {element} *c, int ldc"
        )
        passed = "order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc"
        lines.append(f"extern void scipy_cblas_{name}({typed});")
        lines.append(f"void cblas_{name}({typed}) {{ ++calls; scipy_cblas_{name}({passed}); }}")
    return "\n".join(lines) + "\n"


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "nightingale"


def _build_shim(library: Path) -> Path:
    """Compile the forwarding object beside `library`'s name and version, once. Raises OSError if it cannot be."""
    source = _shim_source()
    key = hashlib.sha256(f"{source}\0{library}\0{library.stat().st_size}\0{platform.machine()}".encode()).hexdigest()
    target = _cache_folder() / f"blas-{key[:16]}.so"
    if target.exists():
        return target
    compiler = next((found for name in ("cc", "gcc", "clang", "g++") if (found := shutil.which(name))), None)
    if compiler is None:
        raise OSError("no C compiler (cc, gcc or clang) on PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        code, built = Path(folder) / "shim.c", Path(folder) / "shim.so"
        code.write_text(source)
        link = [str(library), f"-Wl,-rpath,{library.parent}"]
        command = [compiler, "-O2", "-fPIC", "-shared", "-x", "c", str(code), "-x", "none", "-o", str(built), *link]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise OSError(f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}")
        built.replace(target)
    return target


_blas_problem: str | None = None


@cache
def preload_blas() -> ctypes.CDLL | None:
    """Put OpenBLAS in front of MLX's reference BLAS (Linux); return the forwarding object.

    Returns None on other systems, and where it could not be done: then, if MLX computes on the CPU, importing this
    module warns what that costs.
    """
    global _blas_problem  # noqa: PLW0603  (read once, below, when the device is known)
    if sys.platform != "linux":
        return None
    if "mlx.core" in sys.modules:
        _blas_problem = "MLX was imported before models.backend"
        return None
    try:
        import scipy_openblas32

        library = Path(scipy_openblas32.get_lib_dir()) / "libscipy_openblas.so"
        wanted = os.environ.get("OPENBLAS_NUM_THREADS")
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when the library loads: none of its threads is even started
        try:
            openblas = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        finally:
            if wanted is None:
                del os.environ["OPENBLAS_NUM_THREADS"]
            else:
                os.environ["OPENBLAS_NUM_THREADS"] = wanted
        # Lanes are the parallelism here. OpenBLAS's own threads spin while they wait for each other: beside anything
        # else that wants the cores (an event loop, an encoder) they were measured to make synthesis 12 times slower.
        openblas.scipy_openblas_set_num_threads(1)
        return ctypes.CDLL(str(_build_shim(library)), mode=ctypes.RTLD_GLOBAL)
    except (ImportError, OSError) as error:
        _blas_problem = str(error)
        return None


@cache
def vectorise_jit() -> bool:
    """Have MLX's CPU kernels, which it compiles with g++ at run time, use this processor's vector instructions.

    MLX passes no machine flags, so that on x86-64 its kernels are held to SSE2. It finds g++ on PATH: a script of that
    name, put in front for this process, adds `-march=native` (fused elementwise code runs 2 to 3 times faster).
    Returns whether it is in place; without it everything works, slower.
    """
    compiler = shutil.which("g++")
    if sys.platform != "linux" or platform.machine() != "x86_64" or compiler is None:
        return False
    folder = _cache_folder() / "bin"
    if Path(compiler).parent != folder:
        script = f'#!/bin/sh\nexec "{compiler}" -march=native "$@"\n'
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
                file.write(script)
            Path(file.name).chmod(0o700)
            Path(file.name).replace(folder / "g++")
        except OSError as error:
            logger.info("MLX's kernels stay with SSE2: %s", error)
            return False
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return True


def _mlx_version() -> str:
    try:
        return version("mlx")
    except PackageNotFoundError:
        return "unknown"


def cpu_count() -> int:
    """Processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


preload_blas()
vectorise_jit()
# On NVIDIA, MLX gathers launches into CUDA graphs that it rebuilds for every evaluation; for networks of many small
# kernels launching each was measured 1.5 to 2 times faster (H200: 17.4 against 11.0 ms for a short sentence).
os.environ.setdefault("MLX_USE_CUDA_GRAPHS", "0")
# Plans of eight frame buckets do not fit in the 128 that MLX keeps: first calls after a bucket change cost 60 ms more.
os.environ.setdefault("MLX_CUDA_CONV_CACHE_SIZE", "8192")
# Compiling MLX's CUDA kernels takes minutes; its default folder is a temporary one.
os.environ.setdefault("MLX_PTX_CACHE_DIR", str(_cache_folder() / "ptx" / _mlx_version()))

import mlx.core as mx  # noqa: E402  (after BLAS, as the module's docstring says)

_local = threading.local()


@cache
def on_cpu() -> bool:
    """True when MLX computes on the CPU: layers then lower to matrix products and fused elementwise code."""
    return bool(mx.default_device() == mx.Device(mx.cpu))


if _blas_problem is not None and on_cpu():
    logger.warning("OpenBLAS is not in use (%s): synthesis on this CPU is about 20 times slower", _blas_problem)


def device_name() -> str:
    """What this process computes on, for logs and reports."""
    if on_cpu():
        return f"cpu ({platform.machine()}, {cpu_count()} cores, {'OpenBLAS' if preload_blas() else 'default BLAS'})"
    info = mx.device_info()
    return f"gpu ({info.get('device_name', 'unknown')})"


def lanes() -> list[mx.Stream]:
    """Streams that compute side by side: one a core on the CPU (each has its own thread), one on a GPU.

    MLX streams belong to the thread that made them, so each thread gets its own.
    """
    found: list[mx.Stream] | None = getattr(_local, "lanes", None)
    if found is None:
        first = mx.default_stream(mx.default_device())
        more = min(cpu_count(), _MAX_LANES) - 1 if on_cpu() else 0
        found = _local.lanes = [first, *(mx.new_stream(mx.cpu) for _ in range(more))]
    return found


def release_thread() -> None:
    """End the calling thread's streams; the last thing a thread that used MLX does.

    MLX joins a stream's own thread only here: a process that exits while one lives may abort (SIGABRT).
    """
    _local.lanes = None
    mx.clear_streams()


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of MLX's allocator: held by arrays, kept for reuse, and the most ever held."""

    active: int
    cache: int
    peak: int


def memory() -> MemoryUse:
    """Read MLX's allocator. Safe on any thread."""
    return MemoryUse(mx.get_active_memory(), mx.get_cache_memory(), mx.get_peak_memory())


def limit_cache(limit_bytes: int) -> None:
    """Bound the memory that MLX keeps for reuse; it grows with the number of distinct shapes otherwise."""
    mx.set_cache_limit(limit_bytes)


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s: %(message)s")
    print(f"MLX {_mlx_version()} on {device_name()}")
