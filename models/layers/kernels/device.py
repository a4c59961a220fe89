"""Kernels from one source for CUDA and Metal: the words of both, and the launch on the device there is.

A kernel's header and body are written in the words of cuda.h and metal.h, and in the C++ that both devices have in
common. Mind what MLX adds to the body:

- The inputs and outputs are pointers by their names. On Metal an input of fewer than eight numbers lies in `constant`
  memory: index it, and take no `GLOBAL` pointer to it. One without dimensions is a reference there.
- `x_shape[1]` is a size of the input `x`, where the body (not the header) names it.
- A template's parameters are constants of the body alone: a header's functions take them as arguments.
- The words for indices (THREAD, BLOCK_X and the like) are for the body alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from models.backend import constant, mx, on_cpu
from models.layers.kernels.nvrtc import cuda_kernel
from models.native import nvidia

Device = Literal["cuda", "metal"]
Output = tuple[tuple[int, ...], mx.Dtype]
"""Shape and type."""

LANES = 32
THREADS = 256  # a block, unless a kernel says otherwise

_COUNTERS = 32  # ints: a cache line; an array of 8 bytes lies in host memory, where an atomic takes microseconds

_WORDS: dict[Device, tuple[str, ...]] = {
    "cuda": ("cuda.h", "cuda_memory.h", "activation.h", "bfloat16.h", "softmax.h"),
    "metal": ("metal.h", "activation.h", "bfloat16.h", "softmax.h"),
}

# A definition of the words, and its name; types have none that is looked for.
_DEFINITION = re.compile(r"^(?=#define|INLINE|typedef|using)", re.MULTILINE)
_NAME = re.compile(r"#define (\w+)|INLINE \w+ (\w+)\(")
_WORD = re.compile(r"\w+")

# MLX writes the kernel's signature after this. The launch bounds leave a block's threads their registers.
_CUDA_BOUNDS = """
#undef __global__
#define __global__ __attribute__((global)) __launch_bounds__(THREADS, {resident})"""

# MLX passes the indices that a body names.
_METAL_INDICES = "// thread_index_in_threadgroup threadgroup_position_in_grid threadgroups_per_grid\n"


@cache
def gpu() -> Device | None:
    """Return the device on which kernels run here, or None: MLX computes on the CPU."""
    if on_cpu():
        return None
    if mx.cuda.is_available():
        return "cuda"
    return "metal" if mx.metal.is_available() else None


def processors() -> int:
    """Multiprocessors of the NVIDIA GPU that MLX uses first; 0 where there is none."""
    return nvidia.processors() if gpu() == "cuda" else 0


def launches_directly() -> bool:
    """Return whether MLX launches each kernel by itself (`models.backend` has it so).

    Within a CUDA graph two kernels might run side by side, each holding processors that the other waits for.
    """
    return os.environ.get("MLX_USE_CUDA_GRAPHS") == "0"


def counters(number: int = _COUNTERS) -> mx.array:
    """Return what kernels count blocks in (cuda_memory.h): int32 zeros, by default those of one barrier of the grid."""
    return constant(mx.zeros(number, dtype=mx.int32))


@cache
def read(path: Path) -> str:
    """Return a source without its comments and indentation."""
    return bare(path.read_text(encoding="utf-8"))


def joined(module: str, *names: str) -> str:
    """Return the sources of these names beside the file of a `module`, one after the other."""
    return "".join(read(Path(module).with_name(name)) for name in names)


def defines(values: Mapping[str, object]) -> str:
    """Return definitions of constants."""
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def bare(text: str) -> str:
    """Return a text without comments and indentation: MLX hashes a kernel's source anew for each launch."""
    return "".join(f"{line}\n" for each in text.splitlines() if (line := each.split("//")[0].strip()))


@cache
def words(target: Device) -> str:
    """Return the words of a device."""
    return "".join(read(Path(__file__).with_name(name)) for name in _WORDS[target])


def used_words(target: Device, text: str) -> str:
    """Return those words of a device that a text uses, directly or through others."""
    definitions = _DEFINITION.split(words(target))
    names = [match and next(filter(None, match.groups())) for match in map(_NAME.match, definitions)]
    used = {name for name in names if name is None}
    seen = set(_WORD.findall(text))
    while not used >= (more := {name for name in names if name in seen}):
        used |= more
        for name, definition in zip(names, definitions, strict=True):
            seen |= set(_WORD.findall(definition)) if name in more else set()
    return "".join(text for name, text in zip(names, definitions, strict=True) if name in used)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Source of a kernel.

    Attributes:
        name: Its name, unique for each header.
        inputs: Names of the arrays that it reads.
        outputs: Names of those that it writes.
        body: Its body.
        header: Definitions before it, behind the device's words.
        in_place: Some inputs are written: MLX must pass no copies, so all have to be contiguous.
        bounded: The header defines THREADS, and on CUDA `resident` blocks of so many threads may take all registers.
        shared_bytes: Shared memory that is asked for at the launch, on CUDA.
        resident: Blocks that a multiprocessor is to hold at once, on CUDA, if bounded.
        cluster: Neighboring blocks that reach each other's shared memory, on CUDA, if bounded; Hopper or newer has it.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    header: str = ""
    in_place: bool = False
    bounded: bool = False
    shared_bytes: int = 0
    resident: int = 1
    cluster: int = 1

    def text(self, target: Device) -> tuple[str, str]:
        """Return header and body for a device."""
        header, body = bare(self.header), bare(self.body)
        header = used_words(target, header + body) + header
        if target == "metal":
            return header, _METAL_INDICES + body
        together = f" __cluster_dims__({self.cluster}, 1, 1)" if self.cluster > 1 else ""
        bounds = _CUDA_BOUNDS.format(resident=self.resident) + together + "\n"
        return header + (bounds if self.bounded else ""), body


@cache
def build(kernel: Kernel, target: Device) -> Any:
    """Return MLX's function that launches the kernel, which is compiled once per template and types of inputs."""
    header, body = kernel.text(target)
    given: dict[str, Any] = {"shared_memory": kernel.shared_bytes} if target == "cuda" else {}
    return (cuda_kernel if target == "cuda" else mx.fast.metal_kernel)(
        name=kernel.name,
        input_names=list(kernel.inputs),
        output_names=list(kernel.outputs),
        source=body,
        header=header,
        ensure_row_contiguous=not kernel.in_place,
        **given,
    )


def launch(
    kernel: Kernel,
    inputs: Sequence[mx.array],
    outputs: Sequence[Output],
    blocks: tuple[int, int, int],
    template: Mapping[str, int | bool | mx.Dtype] | None = None,
    threads: int = THREADS,
) -> list[mx.array]:
    """Run a kernel on this device, whose `gpu` is not None.

    Args:
        kernel: the kernel.
        inputs: its arrays, in the order of their names.
        outputs: shapes and types of the results, whose memory holds anything before.
        blocks: blocks of the grid in three dimensions.
        template: constants and types of the body.
        threads: threads of a block, a multiple of 32; at most 1024, and fewer where one takes many registers.

    Returns:
        The results.
    """
    target = gpu()
    if target is None:
        raise ValueError("kernels need a GPU")
    result: list[mx.array] = build(kernel, target)(
        inputs=list(inputs),
        output_shapes=[shape for shape, _ in outputs],
        output_dtypes=[dtype for _, dtype in outputs],
        grid=(blocks[0] * threads, blocks[1], blocks[2]),
        threadgroup=(threads, 1, 1),
        template=list((template or {}).items()),
    )
    return result
