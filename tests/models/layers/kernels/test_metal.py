"""Metal's sources of the layers' and Kokoro's kernels, by clang's types and address spaces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.backend import mx
from models.kokoro import source
from models.layers import adain, lstm
from models.layers.kernels.device import Kernel
from tests.models.metal import checker, complaints, generated

Program = Callable[[str], str]


def test_the_kernels_are_metal(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for module in (adain, lstm, source):
        monkeypatch.setattr(module, "launch", checker(program("clang"), seen))
    monkeypatch.setattr(lstm, "gpu", lambda: "metal")
    lstm._difference(256)
    source._difference(300)
    for dtype in (mx.float32, mx.bfloat16):
        adain._differences(dtype)
    assert set(seen) == {
        "nightingale_lstm",
        "nightingale_harmonics",
        "nightingale_moments",
        "nightingale_sum_moments",
        "nightingale_adain",
        "nightingale_adain_whole",
        "nightingale_sum_adain_whole",
    }


# Helpers that a body may call: one that is right, and one for each mistake.
HEADER = """
INLINE float first(GLOBAL const float *x) { return x[0]; }
INLINE float shared(SHARED const float *x) { return *x; }
INLINE float own(LOCAL float *x) { return *x; }
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y[0] = first(x + (long)1) * RSQRT(2.0f) + (float)N;", ""),
        ("SHARED_ARRAY(float, a, 4); a[0] = x[0]; SYNC(); y[THREAD] = shared(a) + LANE_XOR(a[0], 1);", ""),
        ("float a[2]; a[0] = few[0]; y[0] = own(a); GLOBAL float4 *z = (GLOBAL float4 *)y; z[0] = z[1];", ""),
        ("y[0] = shared(x);", "no matching function"),
        ("float a[2]; y[0] = first(a);", "no matching function"),
        ("y[0] = first(few);", "no matching function"),
        ("GLOBAL float *z = x; z[0] = 0;", "cannot initialize"),
        (
            "SHARED_ARRAY(float, a, 4); GLOBAL float4 *z = (GLOBAL float4 *)a; y[0] = z[0].x;",
            "a cast to another address space",
        ),
        ("y[0] = (double)x[0];", "poisoned"),
        ("y[0] = sqrt(x[0]);", "undeclared"),
        ("y[0] = LANE_XOR((long)1, 1);", "deleted function"),
        ("float a[2]; float *b = a; y[0] = b[0];", "no address space: float *"),
        ("float4 a; y[0] = *(float *)&a;", "no address space: float *"),
        ("ARRIVE(THREAD, 0, 0, 0);", "undeclared"),
        ("y[0] = x[0]", "expected ';'"),
    ],
)
def test_mistakes_show(body: str, message: str, program: Program) -> None:
    kernel = Kernel("tried", ("x", "few"), ("y",), body, HEADER)
    arrays = [mx.zeros((32,)), mx.zeros((4,))]
    found = complaints(program("clang"), generated(kernel, arrays, [((32,), mx.float32)], {"N": 3}))
    assert message in found
    assert bool(message) == bool(found), found
