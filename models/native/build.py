"""Build of the module of kernels from `src/`, once for each content, by the machine's C++ compiler.

The module is kept in the user's cache folder (`process.cache_folder`), which nobody else can write. An image brings it
with the installation (`process.compiled_object`). Its name holds everything that its use depends on: another release of
MLX or of Python needs another one. Its last bytes are the digest of the others: a damaged file is built again. Only a
build needs the compiler and headers. A new module computes in a process of its own before any other process loads it.
`python -m models.native.build` builds the module and prints what it uses.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from models.native import programs
from models.native.process import cache_folder, compiled_object
from models.native.programs import run_all

logger = logging.getLogger(__name__)

SOURCES = Path(__file__).with_name("src")
# Seconds for all of a build, which takes half a minute on two quiet processors.
BUILD_SECONDS = 300.0
# Seconds for a new module to prove itself.
TRIAL_SECONDS = 60.0
# Age in seconds of modules that are removed when another is built. Each start makes its module young again.
KEPT_SECONDS = 30 * 24 * 3600.0
_WORK = "native-build-"
_DIGEST = hashlib.sha256
# Sums keep their order. Whole products and sums may be fused.
FLAGS = (
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-ffp-contract=fast",
)
_AVX2 = ("-mavx2", "-mfma")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mprefer-vector-width=512")
_VNNI = (*_AVX512, "-mavx512vnni")
_AMX = (*_VNNI, "-mavx512bf16", "-mamx-tile", "-mamx-bf16", "-mamx-int8")
INSTRUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "baseline": (),
        "avx2": _AVX2,
        "avxvnni": (*_AVX2, "-mavxvnni"),
        "avx512": _AVX512,
        "vnni": _VNNI,
        "amx": _AMX,
    },
    "aarch64": {
        "baseline": (),
        "dotprod": ("-march=armv8.2-a+dotprod",),
        "bf16": ("-march=armv8.2-a+dotprod+bf16+i8mm",),
    },
}
# Source files that see MLX's and nanobind's headers.
_PRIMITIVES = ("decoder", "transformer", "layers", "vocoder", "unet", "module")
# The program of the process in which a new module computes first. Its path is the argument.
_TRIAL = """
import sys
from models.backend import mx
from models.native import kernels
found = kernels.load(sys.argv[1])
kernels.module = lambda: found
y = kernels.conv1d(mx.ones((1, 600, 16)), kernels.pack_conv(mx.ones((3, 16, 16))), left=1, right=1)
sys.exit("wrong results" if abs(float(y[0, 300, 5]) - 48) > 0.5 else 0)
"""


@dataclass(frozen=True, slots=True)
class CompilationUnit:
    """One compilation: a source file, the object's name, and its flags besides `FLAGS`."""

    source: Path
    name: str
    flags: tuple[str, ...]


def library(seconds: float = BUILD_SECONDS) -> Path:
    """Return the built module; build it where it is missing or damaged.

    Of processes that start at once, one builds and the others wait for it.

    Args:
        seconds: For all of a build.

    Raises:
        OSError: The module cannot be built; the message is the reason. Nothing is left behind.
        ImportError: A package is missing.
    """
    began = time.time()
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".h"))
    contents = [path.read_bytes() for path in (Path(__file__), *sources)]  # this file has the flags
    key = _DIGEST(b"\0".join(("\0".join(_identity()).encode(), *contents))).hexdigest()
    target = compiled_object(f"native-{key[:16]}.so")
    if not _is_whole(target):
        target = cache_folder() / target.name
    if not _is_whole(target):
        with _locked(target.parent / "native.lock", seconds + TRIAL_SECONDS):
            if not _is_whole(target):
                failure = target.with_suffix(".failed")
                with suppress(FileNotFoundError):  # another process failed while this one waited
                    if failure.stat().st_mtime >= began:
                        raise OSError(failure.read_text())
                try:
                    _build(target, time.monotonic() + seconds)
                except OSError as error:
                    with suppress(OSError):
                        failure.write_text(str(error))
                    raise
                failure.unlink(missing_ok=True)
    with suppress(OSError):
        os.utime(target)
    return target


def kernel_units() -> list[CompilationUnit]:
    """Return what is compiled without MLX's headers. Raises OSError on a processor that has no kernels.

    Code for later processors comes last: of functions that several objects have, the linker takes the first.
    """
    instructions = INSTRUCTIONS.get(platform.machine())
    if instructions is None:
        raise OSError(f"no kernels for the processor {platform.machine()}")
    return [
        *(CompilationUnit(SOURCES / f"{name}.cpp", name, ()) for name in ("dispatch", "pool")),
        *isa_units(instructions),
    ]


def isa_units(instructions: dict[str, tuple[str, ...]]) -> list[CompilationUnit]:
    """Return the compilation of the kernels for each set of instructions."""
    return [
        CompilationUnit(SOURCES / "kernels.cpp", name, (*flags, f"-DNIGHTINGALE_ISA={name}"))
        for name, flags in instructions.items()
    ]


def _mlx() -> Path:
    """Return the folder of MLX's package, which carries its headers and its library."""
    # A folder "mlx" beside a script, such as MLX's own in the temporary directory, is a part of the package's path.
    spec = importlib.util.find_spec("mlx.core")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("MLX is not installed")
    return Path(spec.origin).parent


def _identity() -> tuple[str, ...]:
    """Return what the module's binary interface depends on."""
    return (
        *(importlib.metadata.version(name) for name in ("mlx", "nanobind")),
        str((_mlx() / "lib" / "libmlx.so").stat().st_size),
        sysconfig.get_config_var("EXT_SUFFIX"),
        platform.machine(),
        *platform.libc_ver(),
    )


def _units() -> list[CompilationUnit]:
    """Return everything that is compiled, in the order of linking. Raises OSError where a header is missing."""
    import nanobind

    include, binding = _mlx() / "include", Path(nanobind.__file__).parent
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").exists():
        raise OSError(f"{python / 'Python.h'} is missing (on Debian and Ubuntu: apt-get install python3-dev)")
    folders = (binding / "include", binding / "ext" / "robin_map" / "include", include, python)
    bound = ("-DNB_DOMAIN=mlx", "-DNDEBUG", *(f"-isystem{folder}" for folder in folders))
    return [
        CompilationUnit(binding / "src" / "nb_combined.cpp", "nanobind", (*bound, "-O1")),
        *(CompilationUnit(SOURCES / f"{name}.cpp", name, bound) for name in _PRIMITIVES),
        *kernel_units(),
    ]


def _is_whole(path: Path) -> bool:
    """Return whether the file exists and ends with its own digest."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    size = _DIGEST().digest_size
    return content[-size:] == _DIGEST(content[:-size]).digest()


@contextmanager
def _locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of the file `path`, which the system frees with the process. Raises OSError after `seconds`.

    Where the file system has no locks, nothing is held: the module appears whole, whoever builds it.
    """
    with path.open("w") as file:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError(f"another process has not built them in {seconds:.0f} s") from None
                programs.pause()
                continue
            except OSError:
                pass
            break
        yield


def _build(target: Path, deadline: float) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise OSError("no C++ compiler (g++ or clang++) on PATH (on Debian and Ubuntu: apt-get install g++)")
    units = _units()
    logger.info("Compiling the native kernels: about half a minute, once")
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=target.parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        objects = [folder / f"{unit.name}.o" for unit in units]
        run_all(
            [
                [compiler, *FLAGS, *unit.flags, "-c", str(unit.source), "-o", str(made)]
                for unit, made in zip(units, objects, strict=True)
            ],
            deadline,
            folder,
        )
        built = folder / target.name
        # The process that loads the module has MLX's library already: it is found by its name alone.
        link = ["-shared", "-pthread", *map(str, objects), f"-L{_mlx() / 'lib'}", "-lmlx", "-o", str(built)]
        run_all([[compiler, *link]], deadline, folder)
        run_all([[sys.executable, "-c", _TRIAL, str(built)]], time.monotonic() + TRIAL_SECONDS, folder)
        with built.open("ab") as file:
            file.write(_DIGEST(built.read_bytes()).digest())
        built.replace(target)
    # Modules that no process has used for long go, and what builders that were killed left behind.
    for path in target.parent.glob("native-*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - KEPT_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> int:
    """Build the module, try the kernels, and print what is in use; return the exit status."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
    from models.backend import on_cpu
    from models.native import kernels

    if sys.platform != "linux" or not on_cpu():
        print("Native kernels: none, as they are for Linux CPUs")
        return 0
    try:
        path = library()
    except (OSError, ImportError) as error:
        print(kernels.cost(error), file=sys.stderr)
        return 1
    print(f"Native kernels: {kernels.description()} ({path})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
