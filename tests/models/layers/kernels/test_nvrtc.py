"""Kernels that stay compiled between starts. What MLX itself does with them is tested where there is an NVIDIA GPU."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from models.backend import mx
from models.layers.kernels import nvrtc
from models.layers.kernels.device import gpu
from models.native import nvidia

needs_gpu = pytest.mark.skipif(gpu() != "cuda", reason="needs an NVIDIA GPU")

# What MLX 0.32.4 prints for such a kernel with `verbose=True`, between its quotes.
SOURCE = """
#include "mlx/backend/cuda/device/utils.cuh"

#include <cooperative_groups.h>

#define TWICE 2
namespace mlx::core::cu {

namespace cg = cooperative_groups;

__global__ void custom_kernel_tried_5_t_bfloat16_t(
    const float* x,
    const __grid_constant__ Shape x_shape,
    const __grid_constant__ Strides x_strides,
    const __nv_bfloat16* scale,
    const int32_t* count,
    float* y,
    uint32_t* z) {
  constexpr int N = 5;
  constexpr bool FLAG = true;
  using T = __nv_bfloat16;

y[0] = TWICE * x[x_shape[0] - 1] + x_strides[0] + N + float(scale[0]); z[0] = count[0];
}

} // namespace mlx::core::cu
"""
BODY = "y[0] = TWICE * x[x_shape[0] - 1] + x_strides[0] + N + float(scale[0]); z[0] = count[0];"
HEADER = "#define TWICE 2\n"
TEMPLATE = [("N", 5), ("FLAG", True), ("T", mx.bfloat16)]


def tried(inputs: list[mx.array]) -> tuple[str, str]:
    return nvrtc.kernel_source(
        "tried", ["x", "scale", "count"], inputs, ["y", "z"], [mx.float32, mx.uint32], BODY, HEADER, TEMPLATE
    )


@pytest.fixture
def inputs() -> list[mx.array]:
    return [mx.arange(9.0), mx.array([0.5], mx.bfloat16), mx.array(7, mx.int32)]


def test_source_is_that_of_mlx(inputs: list[mx.array]) -> None:
    assert tried(inputs) == ("custom_kernel_tried_5_t_bfloat16_t", SOURCE)


def test_hash_is_that_of_the_cpp_library() -> None:
    assert nvrtc.hashed("abc") == 0x32D82BF8ED3DBA39
    assert nvrtc.hashed("") == 0x553E93901E462A6E


class FakeCompiler:
    """Counts what it compiles."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.error = ""

    def compile(self, function: str, text: str, architecture: str) -> tuple[bytes, str, str]:
        if self.error:
            raise RuntimeError(self.error)
        self.compiled.append(f"{function} {text} {architecture}")
        return b"code", "_Zname", ""


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCompiler:
    made = FakeCompiler()
    monkeypatch.setattr(nvrtc, "_compiler", lambda: made)
    monkeypatch.setattr(nvidia, "architecture", lambda: "sm_90a")
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", str(tmp_path / "ptx"))
    return made


def test_a_kernel_is_compiled_once_and_kept_whole(compiler: FakeCompiler, tmp_path: Path) -> None:
    for _ in range(2):
        assert nvrtc.keep("f", "abc")
    assert compiler.compiled == ["f abc sm_90a"]
    folder = tmp_path / "ptx"
    assert {path.name for path in folder.iterdir()} == {"f_32d82bf8ed3dba39.ptx", "f_32d82bf8ed3dba39.txt"}
    assert (folder / "f_32d82bf8ed3dba39.ptx").read_bytes() == b"code"
    assert (folder / "f_32d82bf8ed3dba39.txt").read_text() == "mlx::core::cu::f\t_Zname\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert nvrtc.keep("f", "other")
    assert len(compiler.compiled) == 2


def test_without_compiler_gpu_or_folder_mlx_compiles(
    compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler.error = "no such header"
    assert not nvrtc.keep("f", "abc")
    compiler.error = ""
    with monkeypatch.context() as patch:
        patch.setattr(nvidia, "architecture", lambda: None)
        assert not nvrtc.keep("f", "abc")
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "_compiler", lambda: None)
        assert not nvrtc.keep("f", "abc")
    (tmp_path / "file").touch()
    with monkeypatch.context() as patch:
        patch.setenv("MLX_PTX_CACHE_DIR", str(tmp_path / "file" / "below"))
        assert not nvrtc.keep("f", "abc")
    assert not (tmp_path / "ptx").exists() or not list((tmp_path / "ptx").iterdir())


def test_a_failed_write_leaves_nothing(compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(nvrtc.os, "fsync", full)
    assert not nvrtc.keep("f", "abc")
    assert not list((tmp_path / "ptx").iterdir())


def test_each_template_is_kept_before_its_launch(
    compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, inputs: list[mx.array]
) -> None:
    launched: list[int] = []

    def make(**_: Any) -> Any:
        return lambda **_: launched.append(len(compiler.compiled)) or []

    monkeypatch.setattr(mx.fast, "cuda_kernel", make)
    kernel = nvrtc.cuda_kernel("tried", ["x", "scale", "count"], ["y", "z"], BODY, HEADER)
    for template in (TEMPLATE, TEMPLATE, [("N", 6), *TEMPLATE[1:]]):
        kernel(inputs=inputs, output_dtypes=[mx.float32, mx.uint32], template=template)
    assert launched == [1, 1, 2]


def test_a_header_lies_in_a_file(compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its name is that of its content, so that a source that includes another header is another source."""
    folder, headers = tmp_path / "ptx", []
    monkeypatch.setattr(mx.fast, "cuda_kernel", lambda header, **_: headers.append(header))
    for each in (HEADER, HEADER, HEADER + "// more"):
        nvrtc.cuda_kernel("tried", ["x"], ["y"], BODY, each)
    assert headers[0] == headers[1] != headers[2]
    (path,) = re.fullmatch(r'#include "(.+)"\n', headers[0]).groups()
    assert (Path(path).parent, Path(path).read_text()) == (folder, HEADER)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    Path(path).write_text("broken")
    nvrtc.included(HEADER)
    assert Path(path).read_text() == HEADER


@pytest.mark.parametrize("folder", ["", "relative", "/with space", '/with"quote', "/proc/nothing"])
def test_without_a_folder_the_source_has_the_header(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", folder)
    assert nvrtc.included(HEADER) == HEADER
    assert nvrtc.included("") == ""


@needs_gpu
def test_mlx_makes_the_same_source(capfd: pytest.CaptureFixture[str], inputs: list[mx.array]) -> None:
    made = mx.fast.cuda_kernel(
        name="tried", input_names=["x", "scale", "count"], output_names=["y", "z"], source=BODY, header=HEADER
    )(
        inputs=inputs, output_shapes=[(1,), (1,)], output_dtypes=[mx.float32, mx.uint32], template=TEMPLATE,
        grid=(32, 1, 1), threadgroup=(32, 1, 1), verbose=True,
    )  # fmt: skip
    del made
    function, text = tried(inputs)
    assert f"`{function}`:\n```\n{text}\n```" in capfd.readouterr().out


@needs_gpu
def test_mlx_takes_what_is_kept() -> None:
    """Code of another kernel, kept by the name of the one that is launched, is what runs."""
    x, body = mx.arange(9.0), "y[0] = 2 * x[x_shape[0] - 1];"
    function, text = nvrtc.kernel_source("kept_other", ["x"], [x], ["y"], [mx.float32], body, "", ())
    compiler, architecture = nvrtc._compiler(), nvidia.architecture()
    assert compiler is not None and architecture is not None
    code, linked, _ = compiler.compile(function, text.replace("2 *", "3 *"), architecture)
    folder = Path(os.environ["MLX_PTX_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{function}_{nvrtc.hashed(text):x}.ptx"
    try:
        kept.with_suffix(".txt").write_text(f"mlx::core::cu::{function}\t{linked}\n")
        kept.write_bytes(code)
        (y,) = mx.fast.cuda_kernel(name="kept_other", input_names=["x"], output_names=["y"], source=body)(
            inputs=[x], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(1, 1, 1), threadgroup=(1, 1, 1)
        )
        assert y.item() == 24.0
    finally:
        kept.unlink()
        kept.with_suffix(".txt").unlink()
