"""CUDA kernels kept compiled between starts.

MLX compiles a kernel that it is given as a source in every process. But it first looks for it in the folder of its own
compiled kernels, by a name that ends in the hash of the source. So this module builds the same source, compiles it by
the same compiler, NVRTC, and puts the result there. The headers before the kernel are fewer than MLX's, and compile
in a fraction of the time. A name that MLX does not ask for, or any error here, costs time alone: MLX then compiles
the kernel itself. (MLX 0.32: mlx/backend/cuda/custom_kernel.cpp and jit_module.cpp.)
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx

from models.backend import mx
from models.native import nvidia

logger = logging.getLogger(__name__)

Template = Sequence[tuple[str, int | bool | mx.Dtype]]

_TYPES = {
    mx.float32: "float", mx.bfloat16: "__nv_bfloat16", mx.float16: "__half", mx.bool_: "bool",
    mx.int8: "int8_t", mx.int16: "int16_t", mx.int32: "int32_t", mx.int64: "int64_t",
    mx.uint8: "uint8_t", mx.uint16: "uint16_t", mx.uint32: "uint32_t", mx.uint64: "uint64_t",
}  # fmt: skip
_TYPES_IN_NAMES = _TYPES | {mx.bfloat16: "bfloat16_t", mx.float16: "float16_t"}
_UTILITIES, _GROUPS = "mlx/backend/cuda/device/utils.cuh", "cooperative_groups.h"
_FIRST = f'\n#include "{_UTILITIES}"\n\n#include <{_GROUPS}>\n\n'
_PLAIN_PATH = re.compile(r"/[\w./+-]+")  # that needs no escapes in a source
_SEED = 0xC70F6907  # of std::hash in libstdc++

# Part of MLX's headers that the kernels use: types of numbers and of shapes, of at most 10 dimensions.
HEADERS = {
    _UTILITIES: """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
namespace mlx::core::cu {
template <typename T> struct Sizes { T v[10]; __device__ T operator[](int i) const { return v[i]; } };
using Shape = Sizes<int32_t>;
using Strides = Sizes<int64_t>;
}
""",
    _GROUPS: "namespace cooperative_groups {}\n",
}


def kernel_source(
    name: str,
    input_names: Sequence[str],
    inputs: Sequence[mx.array],
    output_names: Sequence[str],
    output_dtypes: Sequence[mx.Dtype],
    body: str,
    header: str,
    template: Template,
) -> tuple[str, str]:
    """Return the name of a kernel's function and the source that MLX makes of it, byte by byte.

    Args:
        name: the kernel's name.
        input_names: names of its inputs.
        inputs: the inputs. Their types matter, and whether they have dimensions.
        output_names: names of its outputs.
        output_dtypes: types of its outputs.
        body: its body.
        header: definitions before it.
        template: constants and types of the body.

    Raises:
        KeyError: a type is complex or of 64-bit floats.
    """
    function, constants = f"custom_kernel_{name}", ""
    for key, value in template:
        if isinstance(value, bool):
            function, line = f"{function}_{'t' if value else 'f'}", f"constexpr bool {key} = {str(value).lower()}"
        elif isinstance(value, int):
            function, line = f"{function}_{value}", f"constexpr int {key} = {value}"
        else:
            function, line = f"{function}_{_TYPES_IN_NAMES[value]}", f"using {key} = {_TYPES[value]}"
        constants += f"  {line};\n"
    given = []
    for key, array in zip(input_names, inputs, strict=True):
        given.append(f"const {_TYPES[array.dtype]}* {key}")
        if array.ndim:
            sizes = (("Shape", "shape"), ("Strides", "strides"), ("int", "ndim"))
            given += [f"const __grid_constant__ {kind} {key}_{of}" for kind, of in sizes if f"{key}_{of}" in body]
    given += [f"{_TYPES[dtype]}* {key}" for key, dtype in zip(output_names, output_dtypes, strict=True)]
    signature = "".join(f"    {each}{',' if each is not given[-1] else ') {'}\n" for each in given)
    constants += "\n" if template else ""
    return function, (
        f"{_FIRST}{header}namespace mlx::core::cu {{\n\nnamespace cg = cooperative_groups;\n\n"
        f"__global__ void {function}(\n{signature}{constants}{body}\n}}\n\n}} // namespace mlx::core::cu\n"
    )


def hashed(text: str) -> int:
    """Return std::hash of a string, as MLX's C++ library has it.

    Raises OSError where there is no libstdc++, and AttributeError where it has no such function.
    """
    function = ctypes.CDLL("libstdc++.so.6")["_ZSt11_Hash_bytesPKvmm"]
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t), ctypes.c_size_t
    encoded = text.encode()
    return int(function(encoded, len(encoded), _SEED))


class Compiler:
    """NVRTC. It needs no GPU."""

    def __init__(self, library: ctypes.CDLL, includes: Sequence[Path]) -> None:
        self._nvrtc, self._includes = library, [f"--include-path={path}" for path in includes]

    def compile(self, function: str, text: str, architecture: str, *more: str) -> tuple[bytes, str, str]:
        """Return a kernel's machine code, the linker's name of its function, and the compiler's words.

        Args:
            function: the function's name.
            text: what `kernel_source` returns.
            architecture: such as sm_90a.
            more: options of the compiler.

        Raises:
            RuntimeError: with the compiler's words.
        """
        nvrtc, program = self._nvrtc, ctypes.c_void_p()
        headers, names = (_strings(list(each)) for each in (HEADERS.values(), HEADERS))
        given = (text.encode(), f"{function}.cu".encode(), len(HEADERS), headers, names)
        self._check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), *given))
        try:
            expression = f"mlx::core::cu::{function}".encode()
            self._check(nvrtc.nvrtcAddNameExpression(program, expression))
            target = ("--device-as-default-execution-space", f"--gpu-architecture={architecture}")
            options = [*target, *self._includes, *more]
            result = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
            said = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            self._check(result, said)
            lowered = ctypes.c_char_p()
            self._check(nvrtc.nvrtcGetLoweredName(program, expression, ctypes.byref(lowered)))
            return self._read(program, "CUBIN"), (lowered.value or b"").decode(), said
        finally:
            nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(self._nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size)))
        room = ctypes.create_string_buffer(size.value)
        self._check(self._nvrtc[f"nvrtcGet{what}"](program, room))
        return room.raw

    @staticmethod
    def _check(result: int, said: str = "") -> None:
        if result:
            raise RuntimeError(f"NVRTC's error {result}: {said}")


def _strings(values: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))


@cache
def _compiler() -> Compiler | None:
    """Return the compiler that MLX has loaded, with the headers that MLX finds; None without one."""
    for release in ("13", "12"):
        try:
            library = ctypes.CDLL(f"libnvrtc.so.{release}", mode=os.RTLD_NOLOAD)
        except OSError:
            continue
        packages = Path(next(iter(mlx.__path__)))
        home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
        wheel = packages.parent / "nvidia" / ("cu13" if release == "13" else "cuda_runtime")
        toolkit = (wheel if (wheel / "include").exists() else Path(home)) / "include"
        return Compiler(library, [packages / "include", packages / "include" / "cccl", toolkit])
    return None


def keep(function: str, text: str) -> bool:
    """Compile a kernel to where MLX looks for it, unless it is there; return whether it is."""
    folder, compiler, architecture = os.environ.get("MLX_PTX_CACHE_DIR"), _compiler(), nvidia.architecture()
    if not folder or compiler is None or architecture is None:
        return False
    try:
        target = Path(folder) / f"{function}_{hashed(text):x}.ptx"
        if not target.exists():
            code, linked, _ = compiler.compile(function, text, architecture)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The code is last, whole: MLX takes both files where it is.
            _write(target.with_suffix(".txt"), f"mlx::core::cu::{function}\t{linked}\n".encode())
            _write(target, code)
    except (OSError, AttributeError, RuntimeError) as error:
        logger.debug("kernel %s is not kept compiled: %s", function, error)
        return False
    return True


def included(header: str) -> str:
    """Return an include of a file with `header`, in the folder of MLX's kernels; `header` itself without a folder."""
    folder = os.environ.get("MLX_PTX_CACHE_DIR", "")
    if not header or not _PLAIN_PATH.fullmatch(folder):
        return header
    path = Path(folder) / f"{hashlib.sha256(header.encode()).hexdigest()[:32]}.h"
    try:
        if not path.exists() or path.read_text(encoding="utf-8") != header:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, header.encode())
    except OSError as error:
        logger.debug("no header is kept: %s", error)
        return header
    return f'#include "{path}"\n'


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise


def cuda_kernel(
    name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = "", **more: Any
) -> Callable[..., list[mx.array]]:
    """Return MLX's function that launches a kernel, as `mx.fast.cuda_kernel` does, but keep the kernel compiled.

    The types of inputs and outputs should follow from the template: MLX compiles any others for one template itself.
    """
    header = included(header)
    launch: Any = mx.fast.cuda_kernel(
        name=name, input_names=input_names, output_names=output_names, source=source, header=header, **more
    )
    seen: set[tuple[tuple[str, int | bool | mx.Dtype], ...]] = set()

    def keeping(
        *, inputs: Sequence[mx.array], output_dtypes: Sequence[mx.Dtype], template: Template = (), **given: Any
    ) -> list[mx.array]:
        if (kind := tuple(template)) not in seen:
            seen.add(kind)
            keep(*kernel_source(name, input_names, inputs, output_names, output_dtypes, source, header, template))
        made: list[mx.array] = launch(inputs=inputs, output_dtypes=output_dtypes, template=template, **given)
        return made

    return keeping
