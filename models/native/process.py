"""Preparation of a Linux process before MLX is loaded: BLAS, and memory kept for reuse.

MLX's Linux CPU wheel links the reference BLAS and calls `cblas_sgemm` as a dynamic symbol that an earlier library may
provide. It takes every array from malloc. Both serve what the native kernels leave to MLX: products of whole float32
weights (translation, T3), and everything where there are no native kernels.

`scipy-openblas32` carries OpenBLAS under prefixed names. A forwarding shared object, compiled once per machine into the
user's cache folder, gives it the plain ones (about 60 times faster products).
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
from functools import cache
from pathlib import Path

from models.private import FolderError, cache_root, installed_folder, private_folder

logger = logging.getLogger(__name__)

_GEMM_TYPES = {"sgemm": ("float", "float"), "dgemm": ("double", "double"), "cgemm": ("const void *", "void")}
# CBLAS's enumerations: row-major 101, not transposed 111, transposed 112.
_VECTOR_SOURCE = """
extern void scipy_cblas_sgemv(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x,
                              int incx, float beta, float *y, int incy);
static int vector_rows(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                       const float *b, int ldb, float beta, float *c, int ldc) {
  if (order != 101 || m > 2) return 0;
  for (int row = 0; row < m; ++row) {
    const float *x = ta == 111 ? a + (long)row * lda : a + row;
    int incx = ta == 111 ? 1 : lda;
    if (tb == 111) scipy_cblas_sgemv(order, 112, k, n, alpha, b, ldb, x, incx, beta, c + (long)row * ldc, 1);
    else scipy_cblas_sgemv(order, 111, n, k, alpha, b, ldb, x, incx, beta, c + (long)row * ldc, 1);
  }
  return 1;
}"""
# glibc's mallopt parameters (malloc.h), and the largest of its int values.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_MAX_MALLOC_THRESHOLD = 2**31 - 1


def _shim_source() -> str:
    """Return the C source of the forwarding object: CBLAS's gemm prototypes, and a count of calls for the tests.

    A product of one or two rows goes to sgemv: OpenBLAS's sgemm copies the whole matrix first and takes two to four
    times as long (1 x 1024 by 1024 x 4096: 2.1 instead of 0.6 ms).
    """
    lines = [_VECTOR_SOURCE, "static volatile long calls;", "long nightingale_blas_calls(void) { return calls; }"]
    for name, (scalar, element) in _GEMM_TYPES.items():
        head = "int order, int ta, int tb, int m, int n, int k"
        typed = (
            f"{head}, {scalar} alpha, const {element} *a, int lda, const {element} *b, int ldb, "
            f"{scalar} beta, {element} *c, int ldc"
        )
        passed = "order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc"
        lines.append(f"extern void scipy_cblas_{name}({typed});")
        vector = f"if (vector_rows({passed})) return; " if name == "sgemm" else ""
        lines.append(f"void cblas_{name}({typed}) {{ ++calls; {vector}scipy_cblas_{name}({passed}); }}")
    return "\n".join(lines) + "\n"


def cache_folder() -> Path:
    """Return the folder of this user's compiled objects, which nobody else can write. Raises FolderError."""
    root = cache_root(os.environ)
    if root is None:
        raise FolderError(
            "This user has no home folder to keep compiled code in: set HOME or XDG_CACHE_HOME to the absolute path of "
            "a folder that only you can write."
        )
    return private_folder(root / "nightingale")


@cache
def _installed() -> Path | None:
    """Return the folder of the objects that were compiled with the Python environment, such as in an image."""
    try:
        return installed_folder(Path(sys.prefix, "share", "nightingale"))
    except FolderError as error:
        logger.warning("%s", error)
        return None


def compiled_object(name: str) -> Path:
    """Return the path of the compiled object `name`: of the installation where it has it, else in `cache_folder`.

    Raises FolderError.
    """
    folder = _installed()
    if folder is not None and (folder / name).is_file():
        return folder / name
    return cache_folder() / name


def _shim(library: Path) -> Path:
    """Compile the forwarding object for OpenBLAS's `library`, once; return its path.

    Raises OSError: there is no compiler, or it fails.
    """
    source, after = _shim_source(), (str(library), f"-Wl,-rpath,{library.parent}")
    of = f"{source}\0{after}\0{library.stat().st_size}\0{platform.machine()}"
    target = compiled_object(f"blas-{hashlib.sha256(of.encode()).hexdigest()[:16]}.so")
    if target.exists():
        return target
    compiler = next((found for each in ("cc", "gcc", "clang", "g++") if (found := shutil.which(each))), None)
    if compiler is None:
        raise OSError("no C compiler (cc, gcc or clang) on PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        code, built = Path(folder) / "blas.c", Path(folder) / target.name
        code.write_text(source)
        command = [compiler, "-O2", "-fPIC", "-shared", "-x", "c", str(code), "-x", "none", "-o", str(built), *after]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise OSError(f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}")
        built.replace(target)
    return target


blas_problem: str | None = None


@cache
def preload_blas() -> ctypes.CDLL | None:
    """Put OpenBLAS in front of MLX's reference BLAS (Linux); return the forwarding object.

    Returns None on other systems, and where it could not be done: then, if MLX computes on the CPU, importing this
    module warns what that costs.
    """
    global blas_problem  # noqa: PLW0603  (read once, below, when the device is known)
    if sys.platform != "linux":
        return None
    if "mlx.core" in sys.modules:
        blas_problem = "MLX was imported before models.backend"
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
        # CPU streams are the parallelism here. OpenBLAS's own threads spin while they wait for each other: beside other
        # work on the cores (an event loop, an encoder) they were measured to make synthesis 12 times slower.
        openblas.scipy_openblas_set_num_threads(1)
        return ctypes.CDLL(str(_shim(library)), mode=ctypes.RTLD_GLOBAL)
    except (ImportError, OSError) as error:
        blas_problem = str(error)
        return None


def tune_malloc() -> bool:
    """Make glibc keep the pages of freed arrays instead of returning each array to the system; return whether it does.

    Without, large arrays are mapped, zeroed by the kernel and unmapped again: 38,000 page faults for a minute of the
    house voice, which are 2 % of its time in float32 and more where products take less. Arenas of
    other threads cannot hold large arrays, so there is one. MLX's own cache keeps arrays by their size, which differs
    with each length of a sentence: beside these pages it holds memory and saves no time. The process stays near its
    peak until `trim`.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    parameters = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _MAX_MALLOC_THRESHOLD))
    return all(libc.mallopt(parameter, value) for parameter, value in parameters)


_least_beside = 0


def trim(most: int, used: int) -> None:
    """Make glibc return its free pages where resident memory beyond `used` bytes grew by more than `most` bytes.

    Growth counts from the least since the last trim: what other threads held for a moment is none of it.
    """
    global _least_beside  # noqa: PLW0603
    beside = _resident() - used
    if beside - _least_beside > most:
        ctypes.CDLL(None).malloc_trim(0)
        _least_beside = _resident() - used
    else:
        _least_beside = min(_least_beside, beside)


def _resident() -> int:
    """Return the bytes of this process in memory that no file backs."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
