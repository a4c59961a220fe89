"""Preparation of a Linux process: sgemv for single rows, unit strides in MLX's kernels, kept pages."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.native.process import _compiler_script, preload_blas, vectorize_jit

CPU_LINUX = pytest.mark.skipif(
    not (sys.platform == "linux" and on_cpu()), reason="concerns MLX's CPU back end on Linux"
)

KERNEL = """
#include <cstdint>
extern "C" {
void fused_strided_2(int* shape, int64_t** strides, void** args) {
  float* A = (float*)args[0];
  const int64_t* A_strides = strides[1];
  float* B = (float*)args[1];
  const int64_t* B_strides = strides[2];
  float* C = (float*)args[2];
  for (int i0 = 0; i0 < shape[0]; ++i0) {
  for (int i1 = 0; i1 < shape[1]; ++i1) {
  *C++ = *A * *B;
  A += A_strides[1];
  B += B_strides[1];
  }
  A += A_strides[0];
  A -= A_strides[1] * shape[1];
  B += B_strides[0];
  B -= B_strides[1] * shape[1];
  }
}
}
"""


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("transposed", ["neither", "left", "right", "both"])
def test_products_of_few_rows(rows: int, transposed: str) -> None:
    """One or two rows take another path through BLAS, whatever is transposed, with and without a sum."""
    rng = np.random.RandomState(rows)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 33), (33, 47), (rows, 47)))
    left = mx.array(np.ascontiguousarray(a.T)).T if transposed in ("left", "both") else mx.array(a)
    right = mx.array(np.ascontiguousarray(b.T)).T if transposed in ("right", "both") else mx.array(b)
    assert np.allclose(np.array(left @ right), a @ b, atol=1e-5)
    assert np.allclose(np.array(mx.addmm(mx.array(c), left, right, 0.5, 2.0)), 0.5 * (a @ b) + 2 * c, atol=1e-5)
    wide = mx.array(np.concatenate([b, b], axis=1))
    assert np.allclose(np.array(left @ wide[:, 47:]), a @ b, atol=1e-5)


@CPU_LINUX
def test_single_rows_leave_sgemm_alone() -> None:
    """They reach the forwarding object, whose path for them is the one tested above."""
    counter = preload_blas()
    assert counter is not None
    before = counter.nightingale_blas_calls()
    mx.eval(mx.ones((1, 64)) @ mx.ones((64, 64)))
    assert counter.nightingale_blas_calls() == before + 1


@CPU_LINUX
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the script stands in for g++ on x86-64")
def test_kernels_get_a_twin_for_unit_strides(tmp_path: Path) -> None:
    """The script compiles the twin and the original: both strides compute the same, and only one is vector code."""
    assert vectorize_jit()
    source, built = tmp_path / "kernel.cpp", tmp_path / "kernel.so"
    source.write_text(KERNEL)
    command = ["g++", "-std=c++17", "-O3", "-fPIC", "-shared", str(source), "-o", str(built)]
    preprocessed = subprocess.run([*command[:-2], "-E"], capture_output=True, text=True, check=True).stdout
    assert "if (A_strides[1] == 1 && B_strides[1] == 1) {" in preprocessed
    assert preprocessed.count("A += 1;") == 1
    assert preprocessed.count("A += A_strides[1];") == 1
    subprocess.run(command, check=True)
    assert source.read_text() == KERNEL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.cpp", "kernel.so"]
    kernel = ctypes.CDLL(str(built)).fused_strided_2
    x, gain = np.arange(60, dtype=np.float32).reshape(6, 10), np.arange(5, dtype=np.float32)
    for view in (x[:, :5], x[:, ::2], x[::2, 5:]):
        out = np.zeros((len(view), 5), np.float32)
        strides = [(0, 0), tuple(s // 4 for s in view.strides), (0, 1)]
        rows = [(ctypes.c_int64 * 2)(*s) for s in strides]
        kernel(
            (ctypes.c_int * 2)(*view.shape),
            (ctypes.c_void_p * 3)(*(ctypes.addressof(row) for row in rows)),
            (ctypes.c_void_p * 3)(view.ctypes.data, gain.ctypes.data, out.ctypes.data),
        )
        assert np.array_equal(out, view * gain)


@CPU_LINUX
def test_no_process_sees_half_a_kernel(tmp_path: Path) -> None:
    """Two processes may compile the same kernel at once: the file appears when it is whole."""
    source, built, compiler, script = (tmp_path / name for name in ("kernel.cpp", "kernel.so", "compiler", "g++"))
    source.write_text(KERNEL)
    compiler.write_text(
        f'#!/bin/sh\nfor last; do [ "$before" = -o ] && out=$last; before=$last; done\n'
        f'echo whole > "$out"\n[ -e "{built}" ] && exit 3\n[ "$before" != fail ]\n'
    )
    script.write_text(_compiler_script(str(compiler)))
    compiler.chmod(0o700)
    assert subprocess.run(["sh", script, str(source), "-o", str(built), "fail"], check=False).returncode == 1
    assert not built.exists()
    subprocess.run(["sh", script, str(source), "-o", str(built)], check=True)
    assert built.read_text() == "whole\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compiler", "g++", "kernel.cpp", "kernel.so"]


@CPU_LINUX
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the script stands in for g++ on x86-64")
def test_other_sources_and_failures_pass_through(tmp_path: Path) -> None:
    assert vectorize_jit()
    assert "g++" in subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    plain = tmp_path / "with space.cpp"
    plain.write_text("int main() { for (int i0 = 0; i0 < 3; ++i0) { } return 7; }\n")
    subprocess.run(["g++", str(plain), "-o", str(tmp_path / "plain")], check=True)
    assert subprocess.run([tmp_path / "plain"], check=False).returncode == 7
    plain.write_text("not C++\n")
    failed = subprocess.run(["g++", "-c", str(plain), "-o", "/dev/null"], capture_output=True, check=False)
    assert failed.returncode != 0
    assert [path.name for path in tmp_path.glob("*.cpp")] == ["with space.cpp"]


def test_fused_kernels_on_every_kind_of_stride() -> None:
    """MLX's own kernels, through the script where it is in place: plain, strided, reversed and broadcast inputs."""
    fused = mx.compile(lambda x, s, t: mx.square(x * s + t))
    x = np.random.RandomState(0).standard_normal((1, 40, 24)).astype(np.float32)
    s, t = x[:, :1] + 1, x[:, 1:2]
    array = mx.array(x)
    for view, same in (
        (array, x),
        (array[:, ::2], x[:, ::2]),
        (array[:, ::-1], x[:, ::-1]),
        (array.transpose(0, 2, 1)[:, :, :24], x.transpose(0, 2, 1)[:, :, :24]),
    ):
        found = np.array(fused(view, mx.array(s), mx.array(t)))
        assert np.allclose(found, np.square(same * s + t), atol=1e-5)
    column = np.array(fused(array, mx.array(x[:, :, :1]), mx.array(t)))
    assert np.allclose(column, np.square(x * x[:, :, :1] + t), atol=1e-5)


PAGES = """
import resource
from models.backend import mx
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    for _ in range(20):
        mx.eval(mx.ones((4 << 20,)) + 1)
work()
before = faults()
work()
print(faults() - before)
"""


@CPU_LINUX
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="concerns glibc's malloc")
def test_freed_pages_are_kept() -> None:
    """Twenty arrays of 16 MB after twenty others touch no new page; unkept, each would touch 4096."""
    done = subprocess.run(
        [sys.executable, "-c", PAGES], capture_output=True, text=True, check=True, timeout=300, env=dict(os.environ)
    )
    assert int(done.stdout) < 2_000


GIVEN_BACK = """
import os
from models.backend import give_back, mx
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
def work(megabytes):
    mx.eval(mx.ones((megabytes << 18,)) + 1)
mx.set_cache_limit(0)
give_back(rested=True)
found = [resident()]
work(20)
give_back(rested=True)
found.append(resident())
array = mx.ones((40 << 18,))
mx.eval(array)
work(200)
give_back(rested=True)
found.append(resident())
del array
work(200)
give_back(rested=True)
found.append(resident())
print(*found)
"""


@CPU_LINUX
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="concerns glibc's malloc")
def test_freed_pages_go_back_once_they_are_many() -> None:
    """Those of 20 MB stay for the next sentence; of 400 MB none do, whatever else is in use."""
    done = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, check=True, timeout=300)
    begun, little, beside, after = map(int, done.stdout.split())
    assert little >= begun + 20
    assert begun + 40 <= beside < begun + 64 + 40
    assert after < begun + 64
