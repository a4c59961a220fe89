"""Kernels' sources run by the CPU, as CUDA and as Metal: the same text, compiled as C++ behind a device's builtins."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from models.backend import mx
from models.layers.kernels import device as devices
from models.layers.kernels.device import Device, Kernel, Output

DEVICES: tuple[Device, ...] = ("cuda", "metal")

Launch = tuple[int, int, int]
Outputs = dict[str, tuple[tuple[int, ...], mx.Dtype]]

_TYPES = {
    mx.float32: ("float", np.float32),
    mx.bfloat16: ("bfloat16", np.uint16),
    mx.int32: ("int", np.int32),
    mx.uint32: ("unsigned", np.uint32),
    mx.uint16: ("unsigned short", np.uint16),
    mx.uint8: ("unsigned char", np.uint8),
    mx.bool_: ("bool", np.bool_),
}
_POISON = 0xFF  # no number
# Of a block, declared in its source: CUDA's without asking for more, and Metal's.
SHARED_LIMIT: dict[Device, int] = {"cuda": 48 << 10, "metal": 32 << 10}

_HERE = Path(__file__)
# What is compiled stays here, named by a hash of all that it is made of: a second run compiles nothing.
_KEPT = _HERE.parents[2] / "build" / "emulated"
_COMPILER = ("g++", "-O1", "-std=c++17", "-w", "-fPIC")
_WORDS = Path(devices.__file__)


class Run(NamedTuple):
    """A way to run a kernel. `together`: its blocks meet, and all run at once.

    `written` are the memory of inputs that the kernel writes, by the arrays' ids.
    """

    device: Device = "cuda"
    threads: int = 256
    together: bool = False
    written: Mapping[int, np.ndarray] = MappingProxyType({})


_CUDA = Run()


@cache
def machine(device: Device) -> str:
    """The emulated GPU, and its words. PTX has its own version here; all else is the kernels' own header."""
    parts = [_HERE.with_name(name) for name in ("fibers.h", "gpu_emulation.h", f"{device}_emulation.h")]
    parts += [_WORDS.with_name(f"{device}.h")]
    parts += [_HERE.with_name("cuda_memory_emulation.h")] if device == "cuda" else []
    parts += [_WORDS.with_name(name) for name in ("activation.h", "bfloat16.h", "softmax.h")]
    text = "".join(part.read_text() for part in parts)
    own = {"cuda": "__shared__ __align__(16) type name[count]", "metal": "threadgroup type name[count]"}[device]
    assert own in text
    return text.replace(own, "type(&name)[count] = *(type(*)[count])shared_room(__COUNTER__, sizeof(type) * (count))")


@cache
def copies() -> str:
    """The emulated GPU's version of models/layers/kernels/cuda_copies.h, which expects LATE and CLUSTER."""
    return _HERE.with_name("cuda_copies_emulation.h").read_text()


@cache
def _compiler_version() -> str:
    return subprocess.run([_COMPILER[0], "--version"], capture_output=True, text=True, check=True).stdout


def _compile(source: str, suffix: str, *flags: str) -> Path:
    """Compile `source`, unless an earlier run has done it. Other processes may be doing the same just now."""
    whole = "\0".join((_compiler_version(), *_COMPILER, *flags, source))
    result = _KEPT / (hashlib.sha256(whole.encode()).hexdigest() + suffix)
    if not result.exists():
        _KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
            given, made = Path(folder) / "given", Path(folder) / "made"
            given.write_text(source)
            subprocess.run([*_COMPILER, *flags, f"-I{_KEPT}", str(given), "-o", str(made)], check=True)
            given.replace(result.with_suffix(""))  # a compiler that cannot use a header made in advance reads this one
            made.replace(result)
    return result


@cache
def _included(device: Device) -> str:
    """Return the line that includes `machine(device)`, of which g++ finds what it has compiled in advance."""
    return f'#include "{_compile(machine(device), ".h.gch", "-x", "c++-header").stem}"\n'


@cache
def _compiled(device: Device, source: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(_compile(_included(device) + source, ".so", "-shared", "-x", "c++")))


def _constant(name: str, value: Any) -> str:
    if isinstance(value, mx.Dtype):
        return f"using {name} = {_TYPES[value][0]};"
    return f"constexpr {'bool' if isinstance(value, bool) else 'int'} {name} = {int(value)};"


def _source(header: str, body: str, inputs: dict[str, mx.array], outputs: Outputs, template: dict[str, Any]) -> str:
    lines = []
    for key, array in inputs.items():
        kind = _TYPES[array.dtype][0]
        lines.append(f"static {kind} {key};" if array.ndim == 0 else f"static const {kind} *{key};")
        lines.append(f"static int {key}_shape[8];")
    lines += [f"static {_TYPES[dtype][0]} *{key};" for key, (_, dtype) in outputs.items()]
    lines.append("static void kernel() {\n" + "\n".join(_constant(*item) for item in template.items()) + body + "}")
    lines.append('extern "C" long launch(void **arrays, int (*shapes)[8], const int *numbers) {')
    for i, (key, array) in enumerate(inputs.items()):
        lines.append(f"  {key} = {'*' if array.ndim == 0 else ''}(const {_TYPES[array.dtype][0]} *)arrays[{i}];")
        lines.append(f"  memcpy({key}_shape, shapes[{i}], sizeof {key}_shape);")
    for i, (key, (_, dtype)) in enumerate(outputs.items(), len(inputs)):
        lines.append(f"  {key} = ({_TYPES[dtype][0]} *)arrays[{i}];")
    lines.append("  return run(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], kernel);\n}")
    return header + "\n".join(lines) + "\n"


class _Memory:
    """An array between guards that hold no numbers: what is read there shows in results, what is written in `check`."""

    GUARD = 256

    def __init__(self, shape: tuple[int, ...], dtype: mx.Dtype) -> None:
        kind = np.dtype(_TYPES[dtype][1])
        self.whole = np.full(2 * self.GUARD + int(np.prod(shape)) * kind.itemsize, _POISON, np.uint8)
        self.array = self.whole[self.GUARD : self.whole.size - self.GUARD].view(kind).reshape(shape)

    def check(self, name: str) -> None:
        ends = np.concatenate([self.whole[: self.GUARD], self.whole[-self.GUARD :]])
        assert (ends == _POISON).all(), f"{name} is written beyond its end"


def _own(array: mx.array) -> np.ndarray:
    """The array's own memory."""
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array, copy=False)


def _copied(array: mx.array) -> _Memory:
    memory = _Memory(array.shape, array.dtype)
    memory.array[...] = _own(array)
    return memory


def emulate(
    header: str,
    body: str,
    inputs: dict[str, mx.array],
    outputs: Outputs,
    blocks: Launch,
    template: dict[str, Any],
    *,
    backward: bool = False,
    run: Run = _CUDA,
) -> list[mx.array]:
    """Run a kernel's `blocks`, later threads first if `backward`. Outputs hold no numbers before."""
    library = _compiled(run.device, _source(header, body, inputs, outputs, template))
    library.launch.restype = ctypes.c_long
    memory = {key: _copied(array) for key, array in inputs.items() if id(array) not in run.written}
    memory |= {key: _Memory(shape, dtype) for key, (shape, dtype) in outputs.items()}
    held = [memory[key].array if key in memory else run.written[id(array)] for key, array in inputs.items()]
    held += [memory[key].array for key in outputs]
    arrays = (ctypes.c_void_p * len(held))(*(array.ctypes.data for array in held))
    shapes = ((ctypes.c_int * 8) * len(inputs))()
    for row, array in zip(shapes, inputs.values(), strict=True):
        row[: array.ndim] = array.shape
    numbers = (ctypes.c_int * 6)(*blocks, run.threads, int(backward), int(run.together))
    taken = library.launch(arrays, shapes, numbers)
    assert taken <= SHARED_LIMIT[run.device], f"{taken} bytes of shared memory"
    for key, each in memory.items():
        each.check(key)
        if key in inputs and each.array.tobytes() != (own := _own(inputs[key])).tobytes():
            own[...] = each.array  # some kernels write into their inputs
    results = [mx.array(memory[key].array) for key in outputs]
    return [
        result.view(mx.bfloat16) if dtype == mx.bfloat16 else result
        for result, (_, dtype) in zip(results, outputs.values(), strict=True)
    ]


def launcher(
    device: Device,
    *,
    backward: bool = False,
    change: tuple[str, str] = ("", ""),
    seen: list[str] | None = None,
    written: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> Callable[..., list[mx.array]]:
    """Stands in for `device.launch`; `change` puts words in the place of others, `seen` notes what is launched."""

    def launch(
        kernel: Kernel,
        inputs: Sequence[mx.array],
        outputs: Sequence[Output],
        blocks: Launch,
        template: Mapping[str, Any] | None = None,
        threads: int = devices.THREADS,
    ) -> list[mx.array]:
        if seen is not None:
            seen.append(kernel.name)
        header, body = (inspect.cleandoc(text) + "\n" for text in (kernel.header, kernel.body))
        if change[0]:
            header, body = header.replace(*change), body.replace(*change)
        given = dict(zip(kernel.inputs, inputs, strict=True))
        for name, array in given.items() if kernel.in_place else ():  # MLX makes no contiguous copies of these
            assert _own(array).flags.c_contiguous, f"{name} is not contiguous"
        made = dict(zip(kernel.outputs, outputs, strict=True))
        run = Run(device, threads, device == "cuda" and "ARRIVE" in header + body, written)
        return emulate(header, body, given, made, blocks, dict(template or {}), backward=backward, run=run)

    return launch
