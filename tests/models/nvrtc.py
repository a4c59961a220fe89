"""NVIDIA's own compiler, NVRTC. It needs no GPU: kernels' sources are compiled as MLX does on a machine with one.

`make cudasources` installs it (two wheels) and runs test_cuda_sources.py.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.backend import mx

FOLDER = Path(os.environ.get("NVRTC_FOLDER", Path(__file__).parents[2] / "build" / "nvrtc")) / "nvidia" / "cu13"
# Ampere, Hopper, Blackwell; MLX asks for the instructions of one architecture alone from 9.0 on.
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120a")
_TYPES = {
    mx.float32: "float", mx.bfloat16: "__nv_bfloat16", mx.float16: "__half", mx.int32: "int", mx.uint32: "unsigned",
    mx.uint16: "unsigned short", mx.uint8: "unsigned char", mx.int64: "long long",
}  # fmt: skip
# In place of MLX's header: the types of numbers and of shapes. 10 dimensions are MLX's most.
_HEADER = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <typename T> struct Sizes { T v[10]; __device__ T operator[](int i) const { return v[i]; } };
using Shape = Sizes<int>;
using Strides = Sizes<long long>;
"""
_USED = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


@dataclass(frozen=True, slots=True)
class Compiled:
    """Registers of a thread, and bytes that it spills to memory."""

    name: str
    architecture: str
    registers: int
    spilled: int


@dataclass
class Compiler:
    """Stands in for `mx.fast.cuda_kernel`: kernels are compiled instead of launched, and their results are zeros."""

    compiled: list[Compiled] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._nvrtc = ctypes.CDLL(str(FOLDER / "lib" / "libnvrtc.so.13"))
        self._done: set[str] = set()

    def __call__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
        ensure_row_contiguous: bool = True,
        shared_memory: int = 0,
    ) -> Any:
        def launch(
            inputs: Sequence[mx.array],
            output_shapes: Sequence[tuple[int, ...]],
            output_dtypes: Sequence[mx.Dtype],
            template: Sequence[tuple[str, Any]] = (),
            **grid: Any,
        ) -> list[mx.array]:
            signature = []
            for key, array in zip(input_names, inputs, strict=True):
                signature.append(f"const {_TYPES[array.dtype]}* {key}")
                if array.ndim and f"{key}_shape" in source:
                    signature.append(f"const __grid_constant__ Shape {key}_shape")
            signature += [f"{_TYPES[d]}* {key}" for key, d in zip(output_names, output_dtypes, strict=True)]
            constants = "".join(f"  {_constant(*item)}\n" for item in template)
            text = f"{_HEADER}{header}\n__global__ void kernel({', '.join(signature)}) {{\n{constants}{source}\n}}\n"
            if text not in self._done:
                self._done.add(text)
                self.compiled += [self.compile(name, text, each) for each in ARCHITECTURES]
            return [mx.zeros(shape, dtype) for shape, dtype in zip(output_shapes, output_dtypes, strict=True)]

        return launch

    def compile(self, name: str, text: str, architecture: str) -> Compiled:
        """Compile a source. Raises RuntimeError with the compiler's words."""
        program = ctypes.c_void_p()
        self._check(self._nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None), "")
        options = [
            "--device-as-default-execution-space", f"--gpu-architecture={architecture}",
            f"--include-path={FOLDER / 'include'}", "--ptxas-options=-v",
        ]  # fmt: skip
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        result = self._nvrtc.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        self._nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        self._nvrtc.nvrtcGetProgramLog(program, log)
        self._nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        said = log.value.decode(errors="replace")
        self._check(result, f"{name} for {architecture}: {said}")
        registers = max(map(int, _USED.findall(said)))
        return Compiled(name, architecture, registers, max(map(int, _SPILLED.findall(said)), default=0))

    @staticmethod
    def _check(result: int, said: str) -> None:
        if result:
            raise RuntimeError(f"NVRTC's error {result}: {said}")


def _constant(name: str, value: int | bool | mx.Dtype) -> str:
    if isinstance(value, bool):
        return f"constexpr bool {name} = {str(value).lower()};"
    return f"constexpr int {name} = {value};" if isinstance(value, int) else f"using {name} = {_TYPES[value]};"
