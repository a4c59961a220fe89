"""The words of both devices, and what MLX is given."""

from __future__ import annotations

import re

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.layers.kernels.device import Device, Kernel, gpu, launch
from tests.models.emulator import Run, emulate
from tests.models.metal import generated


def test_a_kernel_has_the_words_that_it_uses() -> None:
    """MLX hashes the whole source at every launch. Words that others are made of are there too; types always are."""
    tried = Kernel("tried", ("x",), ("y",), "  y[0] = x[0]; // SYNC()\n\n  ARRIVE();", "#define A RSQRT")
    header, body = tried.text("cuda")
    assert body == "y[0] = x[0];\nARRIVE();\n"
    found = set(re.findall(r"#define (\w+)", header)) | set(re.findall(r"^INLINE \w+ (\w+)\(", header, re.MULTILINE))
    assert found == {"A", "RSQRT", "ARRIVE", "ARRIVALS", "INLINE"}
    assert "typedef unsigned int uint;" in header


def test_metals_signature_has_the_indices() -> None:
    """MLX passes those that the body names, and headers cannot."""
    kernel = Kernel("tried", ("x",), ("y",), "y[THREAD + BLOCK_X] = x[0] + BLOCKS_Y;")
    text = generated(kernel, [mx.zeros((9,))], [((9,), mx.float32)])
    for name in ("thread_index_in_threadgroup", "threadgroup_position_in_grid", "threadgroups_per_grid"):
        assert f"{name} [[{name}]]" in text


BODY = """
    SHARED_ARRAY(float, of_warps, 8);
    float sum = x[(BLOCK_Z * BLOCKS_Y + BLOCK_Y) * 256 + THREAD];
    for (int mask = 16; mask > 0; mask /= 2) sum += LANE_XOR(sum, mask);
    if (THREAD % 32 == 0) of_warps[THREAD / 32] = sum;
    SYNC();
    if (THREAD != 0) return;
    for (int w = 1; w < 8; ++w) sum += of_warps[w];
    y[BLOCK_Z * BLOCKS_Y + BLOCK_Y] = (X)(sum * EXP(0.0f) * RSQRT(4.0f) + BITS_FLOAT(FLOAT_BITS(1.0f)) + BLOCK_X);
"""


@pytest.mark.slow
@pytest.mark.parametrize(("device", "backward"), [("cuda", False), ("metal", True)])
def test_one_body_runs_on_both(device: Device, backward: bool) -> None:
    """Sums of blocks' rows by warps, then by one thread."""
    x = mx.arange(6 * 256).astype(mx.float32) % 7
    outputs = {"y": ((6,), mx.bfloat16)}
    (found,) = emulate("", BODY, {"x": x}, outputs, (1, 3, 2), {"X": mx.bfloat16}, backward=backward, run=Run(device))
    wanted = x.reshape(6, 256).sum(axis=1) / 2 + 1
    assert found.tolist() == wanted.astype(mx.bfloat16).tolist()


@pytest.mark.slow
def test_more_shared_memory_than_a_threadgroup_has_is_refused() -> None:
    """CUDA has 48 KB, Metal 32."""
    body = "SHARED_ARRAY(float, room, 9000); room[THREAD] = 0.0f; SYNC(); y[0] = room[0];"
    outputs = {"y": ((1,), mx.float32)}
    emulate("", body, {"x": mx.zeros((1,))}, outputs, (1, 1, 1), {})
    with pytest.raises(AssertionError, match="36000 bytes of shared memory"):
        emulate("", body, {"x": mx.zeros((1,))}, outputs, (1, 1, 1), {}, run=Run("metal"))


@pytest.mark.slow
def test_what_is_beyond_an_array_shows() -> None:
    outputs = {"y": ((8,), mx.float32)}
    (found,) = emulate("", "y[0] = x[8];", {"x": mx.zeros((8,))}, outputs, (1, 1, 1), {})
    assert np.isnan(np.array(found)).all()
    with pytest.raises(AssertionError, match="y is written beyond its end"):
        emulate("", "y[8] = x[0];", {"x": mx.zeros((8,))}, outputs, (1, 1, 1), {})


@pytest.mark.skipif(not on_cpu(), reason="a GPU is here")
def test_a_cpu_has_no_kernels() -> None:
    assert gpu() is None
    with pytest.raises(ValueError, match="need a GPU"):
        launch(Kernel("tried", ("x",), ("y",), ""), [mx.zeros((9,))], [((9,), mx.float32)], (1, 1, 1))
