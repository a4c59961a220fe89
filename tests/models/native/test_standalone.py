"""Kernels and threads in a program without Python: under sanitizers, on arm64, and with the flags of the module.

`standalone.cpp` compares them with plain loops on random shapes.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from models.native import build
from models.native.build import FLAGS, INSTRUCTIONS, SOURCES, CompilationUnit
from models.native.programs import run_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proof,
    pytest.mark.timeout(2_400),
    pytest.mark.skipif(sys.platform != "linux", reason="the native kernels are for Linux"),
]
# Of the output, where products in bfloat16 were tried, too.
BFLOAT16 = " and bfloat16"
# A busy machine of two cores needs minutes for what is compiled with sanitizers.
COMPILE_SECONDS = 1_500
PROGRAM = CompilationUnit(Path(__file__).with_name("standalone.cpp"), "standalone", (f"-I{SOURCES}",))


def objects_of(folder: Path, units: Sequence[CompilationUnit], *flags: str, compiler: str | None = None) -> list[str]:
    """Compile the units; return the objects, each named as its unit."""
    compiler = compiler or shutil.which("g++")
    assert compiler is not None
    objects = [str(folder / f"{unit.name}.o") for unit in units]
    commands = [
        [compiler, *FLAGS, *unit.flags, *flags, "-c", str(unit.source), "-o", made]
        for unit, made in zip(units, objects, strict=True)
    ]
    run_all(commands, time.monotonic() + COMPILE_SECONDS, folder)
    return objects


def compiled(
    folder: Path,
    units: Sequence[CompilationUnit],
    *flags: str,
    compiler: str | None = None,
    link: Sequence[str] = (),
    ready: Sequence[str] = (),
) -> Path:
    """Compile the units and the program; link them and the objects `ready`; return the program's path.

    Args:
        folder: Of all results.
        units: To compile.
        flags: Of all compilations and the linker.
        compiler: g++ without.
        link: Further flags of the linker.
        ready: Objects that were compiled before.
    """
    objects = objects_of(folder, [PROGRAM, *units], *flags, compiler=compiler)
    command = [compiler or "g++", *flags, *link, "-pthread", *objects, *ready, "-o", str(folder / "program")]
    run_all([command], time.monotonic() + COMPILE_SECONDS, folder)
    return folder / "program"


@pytest.fixture(scope="module")
def module_objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Objects of the kernels with the module's flags, by unit, in the order of linking."""
    units = build.kernel_units()
    names = [unit.name for unit in units]
    return dict(zip(names, objects_of(tmp_path_factory.mktemp("module"), units), strict=True))


def run(command: Sequence[str], instructions: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NATIVE_KERNELS": instructions, "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def check(*command: str, only: Sequence[str] = ()) -> set[str]:
    """Run the program with each set of instructions, or `only` some; return those that this processor has."""
    used = set()
    for instructions in only or INSTRUCTIONS[platform.machine()]:
        done = run(command, instructions)
        if "unexpected memory mapping" in done.stderr:  # ThreadSanitizer, where the system spreads addresses widely
            done = run(("setarch", "--addr-no-randomize", *command), instructions)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        used.add(done.stdout.strip().removesuffix(BFLOAT16))
    assert used <= INSTRUCTIONS[platform.machine()].keys()
    return used


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize=null,object-size,vptr", "-fno-sanitize-recover=all")
    program = compiled(tmp_path, build.kernel_units(), "-g", "-O1", "-DWITHOUT_FORK", *flags)
    assert "baseline" in check(str(program))


def test_threads_do_not_race(tmp_path: Path) -> None:
    """One set of instructions is enough: threads share the same in all."""
    watched = ("-g", "-O1", "-fsanitize=thread")
    units = []
    for unit in build.kernel_units():
        flags = watched if unit.name in ("dispatch", "pool", "baseline") else ("-O0",)
        units.append(replace(unit, flags=(*unit.flags, *flags)))
    program = compiled(tmp_path, units, "-DWITHOUT_FORK", link=watched)
    assert check(str(program), only=("baseline",)) == {"baseline"}


def test_flags_of_the_module(tmp_path: Path, module_objects: dict[str, str]) -> None:
    """The same with its optimization. No function for later processors is the only one of its name.

    The linker takes the first of several, which must run everywhere.
    """
    assert "baseline" in check(str(compiled(tmp_path, (), ready=[*module_objects.values()])))
    everywhere: set[str] = set()
    for name, made in module_objects.items():
        listed = subprocess.run(["nm", made], capture_output=True, text=True, timeout=60, check=True).stdout
        shared = {line.split()[-1] for line in listed.splitlines() if " W " in line or " u " in line}
        if name in ("dispatch", "pool", "baseline"):
            everywhere |= shared
        assert shared <= everywhere, f"{name} has functions of its own that others could call"


@pytest.mark.skipif("avx512_vnni" not in Path("/proc/cpuinfo").read_text(), reason="AMX extends VNNI")
def test_matrix_tiles(tmp_path: Path, module_objects: dict[str, str]) -> None:
    """Emulate the instructions of AMX, which few processors have."""
    tiles = ("-include", str(Path(__file__).with_name("tiles.h")), *INSTRUCTIONS["x86_64"]["vnni"], "-g", "-O1")
    units = [CompilationUnit(SOURCES / "kernels.cpp", "amx", (*tiles, "-DNIGHTINGALE_ISA=amx", "-fsanitize=address"))]
    ready = [made for name, made in module_objects.items() if name != "amx"]
    program = compiled(tmp_path, units, "-DEMULATED_TILES", "-DWITHOUT_FORK", link=("-fsanitize=address",), ready=ready)
    done = run((str(program),), "vnni")
    assert (done.returncode, done.stdout) == (0, f"vnni{BFLOAT16}\n"), done.stdout + done.stderr


@pytest.mark.skipif(platform.machine() == "aarch64", reason="the other tests run on arm64 here")
def test_arm64(tmp_path: Path, program: Callable[[str], str]) -> None:
    compiler, emulator = program("aarch64-linux-gnu-g++"), program("qemu-aarch64")
    units = [unit for unit in build.kernel_units() if unit.name in ("dispatch", "pool")]
    units += build.isa_units(INSTRUCTIONS["aarch64"])
    built = compiled(tmp_path, units, "-static", "-DWITHOUT_FORK", compiler=compiler)
    # The processor, the value of NATIVE_KERNELS, what is used; the last has no products of matrices.
    for processor, asked, used in (
        ("max", "baseline", "baseline"),
        ("max", "dotprod", "dotprod"),
        ("max", "bf16", f"dotprod{BFLOAT16}"),
        ("neoverse-n1", "bf16", "dotprod"),
    ):
        done = run((emulator, "-cpu", processor, str(built)), asked)
        assert (done.returncode, done.stdout) == (0, f"{used}\n"), done.stdout + done.stderr
