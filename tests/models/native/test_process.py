"""Preparation of a Linux process: sgemv for single rows, unit strides in MLX's kernels, kept pages."""

from __future__ import annotations

import platform
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.native import process

GLIBC = pytest.mark.skipif(not on_cpu() or platform.libc_ver()[0] != "glibc", reason="concerns MLX on glibc's malloc")


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


def test_fused_kernels_on_every_kind_of_stride() -> None:
    """MLX's own kernels: plain, strided, reversed and broadcast inputs."""
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


def printed(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


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


@GLIBC
def test_freed_pages_are_kept() -> None:
    """Twenty arrays of 16 MB after twenty others touch no new page; unkept, each would touch 4096."""
    assert int(printed(PAGES)) < 2_000


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


@GLIBC
def test_freed_pages_go_back_once_they_are_many() -> None:
    """Those of 20 MB stay for the next sentence; of 400 MB none do, whatever else is in use."""
    begun, little, beside, after = map(int, printed(GIVEN_BACK).split())
    assert little >= begun + 20
    assert begun + 40 <= beside < begun + 64 + 40
    assert after < begun + 64


def test_growth_counts_from_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that another thread held at the last trim, and gave back since, does not hide later growth."""
    trimmed: list[int] = []
    resident = iter([900, 900, 300, 340, 420, 420])
    monkeypatch.setattr(process, "_resident", lambda: next(resident))
    monkeypatch.setattr(process.ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=trimmed.append))
    monkeypatch.setattr(process, "_least_beside", 0)
    process.trim(100, 0)  # the lexicons are being read: 900 is left
    assert trimmed == [0]
    process.trim(100, 0)  # they are there
    process.trim(100, 0)
    assert trimmed == [0]
    process.trim(100, 0)
    assert trimmed == [0, 0]
