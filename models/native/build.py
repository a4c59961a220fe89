"""Build of the module of kernels from `src/`, once for each content, by the machine's C++ compiler.

The module is kept in the user's cache folder (`process.cache_folder`), which nobody else can write. Its name holds
everything that it depends on: another release of MLX or of Python, or another compiler, builds another one.
`python -m models.native.build` builds it and prints its path.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from models.native.process import cache_folder, find_compiler

SOURCES = Path(__file__).with_name("src")
SECONDS = 300.0  # that one file may take to compile
# Sums keep their order. Whole products and sums may be fused.
_FLAGS = (
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
_AMX = (*_VNNI, "-mavx512bf16", "-mamx-tile", "-mamx-bf16")
_INSTRUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "baseline": (),
        "avx2": _AVX2,
        "avxvnni": (*_AVX2, "-mavxvnni"),
        "avx512": _AVX512,
        "vnni": _VNNI,
        "amx": _AMX,
    },
    "aarch64": {"baseline": ()},
    "arm64": {"baseline": ()},
}
# Source files that see MLX's and nanobind's headers.
_PRIMITIVES = ("decoder", "transformer", "convolution", "recurrent", "module")


@dataclass(frozen=True, slots=True)
class _Unit:
    """One compilation: a source file, the object's name, and its flags."""

    source: Path
    name: str
    flags: tuple[str, ...]


def library() -> Path:
    """Return the built module; build it where it is missing. Raises OSError with the reason where it cannot be."""
    compiler = find_compiler() or shutil.which("clang++")
    if compiler is None:
        raise OSError("no C++ compiler (g++ or clang++) on PATH")
    units = _units()
    described = "\0".join((*_identity(compiler), *(str(unit.flags) for unit in units)))
    key = hashlib.sha256(described.encode() + b"\0".join(_contents())).hexdigest()
    target = cache_folder() / f"native-{key[:16]}.so"
    if not target.exists():
        # Of processes that start at once, one builds and the others wait for it.
        with (target.parent / "native.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                _build(compiler, units, target)
    return target


def _mlx() -> Path:
    """Return the folder of MLX's package, which carries its headers and its library."""
    import mlx

    return Path(next(iter(mlx.__path__)))


def _contents() -> list[bytes]:
    """Return the sources, and the commands that this file makes of them."""
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".h"))
    return [path.read_bytes() for path in (Path(__file__), *sources)]


def _identity(compiler: str) -> tuple[str, ...]:
    """Return what the module's binary interface depends on."""
    status = Path(compiler).resolve().stat()
    versions = [importlib.metadata.version(name) for name in ("mlx", "nanobind")]
    return (
        compiler,
        str(status.st_size),
        str(status.st_mtime_ns),
        *versions,
        sysconfig.get_config_var("EXT_SUFFIX"),
        platform.machine(),
    )


def _units() -> list[_Unit]:
    """Return everything that is compiled, the longest first. Raises OSError where a header is missing."""
    import nanobind

    include, binding = _mlx() / "include", Path(nanobind.__file__).parent
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").exists():
        raise OSError(f"{python / 'Python.h'} is missing (on Debian and Ubuntu: apt-get install python3-dev)")
    folders = (binding / "include", binding / "ext" / "robin_map" / "include", include, python)
    bound = ("-DNB_DOMAIN=mlx", "-DNDEBUG", *(f"-isystem{folder}" for folder in folders))
    instructions = _INSTRUCTIONS.get(platform.machine())
    if instructions is None:
        raise OSError(f"no kernels for the processor {platform.machine()}")
    return [
        _Unit(binding / "src" / "nb_combined.cpp", "nanobind", (*bound, "-O1")),
        *(_Unit(SOURCES / f"{name}.cpp", name, bound) for name in _PRIMITIVES),
        *(
            _Unit(SOURCES / "kernels.cpp", name, (*flags, f"-DNIGHTINGALE_ISA={name}"))
            for name, flags in instructions.items()
        ),
        *(_Unit(SOURCES / f"{name}.cpp", name, ()) for name in ("dispatch", "pool")),
    ]


def _build(compiler: str, units: Sequence[_Unit], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        objects = [folder / f"{unit.name}.o" for unit in units]
        commands = [
            [compiler, *_FLAGS, *unit.flags, "-c", str(unit.source), "-o", str(made)]
            for unit, made in zip(units, objects, strict=True)
        ]
        with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
            list(pool.map(_run, commands))
        built = folder / target.name
        # The process that loads the module has MLX's library already: it is found by its name alone.
        _run([compiler, "-shared", "-pthread", *map(str, objects), f"-L{_mlx() / 'lib'}", "-lmlx", "-o", str(built)])
        built.replace(target)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise OSError(f"{command[0]} took more than {SECONDS:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise OSError(f"{command[0]} failed: {lines[0] if lines else done.returncode}")


if __name__ == "__main__":
    try:
        print(library())
    except OSError as error:
        sys.exit(str(error))
