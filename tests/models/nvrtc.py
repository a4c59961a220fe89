"""NVIDIA's own compiler, NVRTC. It needs no GPU: kernels' sources are compiled as MLX does on a machine with one.

`make cudasources` installs it (two wheels) and runs test_cuda_sources.py.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.backend import mx
from models.layers.kernels import nvrtc

FOLDER = Path(os.environ.get("NVRTC_FOLDER", Path(__file__).parents[2] / "build" / "nvrtc")) / "nvidia" / "cu13"
# Ampere, Hopper, Blackwell; MLX asks for the instructions of one architecture alone from 9.0 on.
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120a")
_USED = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


@dataclass(frozen=True, slots=True)
class Compiled:
    """Threads of a block, registers of a thread, and bytes that it spills to memory."""

    name: str
    architecture: str
    threads: int
    registers: int
    spilled: int


@dataclass
class Compiler:
    """Stands in for `mx.fast.cuda_kernel`: kernels are compiled instead of launched, and their results are zeros."""

    compiled: list[Compiled] = field(default_factory=list)

    def __post_init__(self) -> None:
        library = ctypes.CDLL(str(FOLDER / "lib" / "libnvrtc.so.13"))
        self._compiler = nvrtc.Compiler(library, [FOLDER / "include"])
        self._done: set[str] = set()

    def __call__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
        **more: Any,
    ) -> Any:
        def launch(
            inputs: Sequence[mx.array],
            output_shapes: Sequence[tuple[int, ...]],
            output_dtypes: Sequence[mx.Dtype],
            template: Sequence[tuple[str, Any]] = (),
            threadgroup: tuple[int, int, int] = (1, 1, 1),
            **grid: Any,
        ) -> list[mx.array]:
            function, text = nvrtc.kernel_source(
                name, input_names, inputs, output_names, output_dtypes, source, header, template
            )
            if text not in self._done:
                self._done.add(text)
                able = ARCHITECTURES[1:] if "__cluster_dims__(" in header else ARCHITECTURES
                self.compiled += [self.compile(name, function, text, each, math.prod(threadgroup)) for each in able]
            return [mx.zeros(shape, dtype) for shape, dtype in zip(output_shapes, output_dtypes, strict=True)]

        return launch

    def compile(self, name: str, function: str, text: str, architecture: str, threads: int) -> Compiled:
        """Compile a source. Raises RuntimeError with the compiler's words."""
        _, _, said = self._compiler.compile(function, text, architecture, "--ptxas-options=-v")
        registers = max(map(int, _USED.findall(said)))
        return Compiled(name, architecture, threads, registers, max(map(int, _SPILLED.findall(said)), default=0))
