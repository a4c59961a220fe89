"""CUDA sources run by the CPU: the same text, compiled as C++ behind `cuda_emulation.h`."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from models.backend import mx

Launch = tuple[int, int, int]
Outputs = dict[str, tuple[tuple[int, ...], mx.Dtype]]

_TYPES = {
    mx.float32: ("float", np.float32),
    mx.bfloat16: ("bfloat16", np.uint16),
    mx.int32: ("int", np.int32),
    mx.uint32: ("unsigned", np.uint32),
}
_POISON = 0xA5


@cache
def _compiled(source: str) -> ctypes.CDLL:
    here = Path(__file__)
    headers = (here.with_name("fibers.h"), here.with_name("cuda_emulation.h"))
    source = "".join(header.read_text() for header in headers) + source
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "emulated.so"
        command = ["g++", "-O1", "-std=c++17", "-w", "-fPIC", "-shared", "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=source, text=True, check=True)
        return ctypes.CDLL(str(path))


def _constant(name: str, value: Any) -> str:
    if isinstance(value, mx.Dtype):
        return f"using {name} = {_TYPES[value][0]};"
    return f"constexpr {'bool' if isinstance(value, bool) else 'int'} {name} = {int(value)};"


def _source(header: str, body: str, inputs: dict[str, mx.array], outputs: Outputs, template: dict[str, Any]) -> str:
    lines = []
    for key, array in inputs.items():
        lines.append(f"static const {_TYPES[array.dtype][0]} *{key};")
        lines.append(f"static int {key}_shape[8];")
    lines += [f"static {_TYPES[dtype][0]} *{key};" for key, (_, dtype) in outputs.items()]
    lines.append("static void kernel() {\n" + "\n".join(_constant(*item) for item in template.items()) + body + "}")
    lines.append('extern "C" void launch(void **arrays, int (*shapes)[8], int across, int down, int deep, int back) {')
    for i, (key, array) in enumerate(inputs.items()):
        lines.append(f"  {key} = (const {_TYPES[array.dtype][0]} *)arrays[{i}];")
        lines.append(f"  memcpy({key}_shape, shapes[{i}], sizeof {key}_shape);")
    for i, (key, (_, dtype)) in enumerate(outputs.items(), len(inputs)):
        lines.append(f"  {key} = ({_TYPES[dtype][0]} *)arrays[{i}];")
    lines.append("  run(across, down, deep, 256, back, kernel);\n}")
    return header + "\n".join(lines) + "\n"


def _bits(array: mx.array) -> np.ndarray:
    array = mx.contiguous(array)
    return np.ascontiguousarray(np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array))


def emulate(
    header: str,
    body: str,
    inputs: dict[str, mx.array],
    outputs: Outputs,
    blocks: Launch,
    template: dict[str, Any],
    *,
    backward: bool = False,
) -> list[mx.array]:
    """Run a kernel with `blocks` of 256 threads, later threads first if `backward`. Outputs hold rubbish before."""
    library = _compiled(_source(header, body, inputs, outputs, template))
    given = [_bits(array) for array in inputs.values()]
    made = []
    for shape, dtype in outputs.values():
        made.append(np.empty(shape, _TYPES[dtype][1]))
        made[-1].view(np.uint8)[...] = _POISON
    arrays = (ctypes.c_void_p * (len(given) + len(made)))(*(array.ctypes.data for array in (*given, *made)))
    shapes = ((ctypes.c_int * 8) * len(given))()
    for row, array in zip(shapes, inputs.values(), strict=True):
        row[: array.ndim] = array.shape
    library.launch(arrays, shapes, *blocks, int(backward))
    results = []
    for array, (_, dtype) in zip(made, outputs.values(), strict=True):
        result = mx.array(array)
        results.append(result.view(mx.bfloat16) if dtype == mx.bfloat16 else result)
    return results
