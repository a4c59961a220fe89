"""Metal's sources of the kernels, as MLX would compile them, checked by clang on any machine (metal_types.h).

MLX writes a kernel's signature from its arrays. Without Metal it still does so for a function that is exported.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.backend import mx
from models.layers.kernels.device import THREADS, Kernel, Output, build

_TYPES = Path(__file__).with_name("metal_types.h")
_COMMAND = ("-x", "c++", "-std=c++17", "--target=aarch64-linux-gnu", "-nostdinc", "-Wall", "-Wno-unused", "-")

_SPACES = {"device", "constant", "threadgroup", "thread"}
# A pointer's type and its star, as clang-format leaves them; a product has spaces on both sides.
_POINTER = re.compile(r"([^(),;{}<=&|?:]*\b\w+)(?: \*(?![ =])|\*(?=[ )]))")


def generated(
    kernel: Kernel, inputs: Sequence[mx.array], outputs: Sequence[Output], template: Mapping[str, Any] | None = None
) -> str:
    """Return the source that MLX gives to Metal's compiler, but for MLX's own headers before it."""
    made = build(kernel, "metal")

    def run(*arrays: mx.array) -> Any:
        return made(
            inputs=list(arrays),
            output_shapes=[shape for shape, _ in outputs],
            output_dtypes=[dtype for _, dtype in outputs],
            grid=(THREADS, 1, 1),
            threadgroup=(THREADS, 1, 1),
            template=list((template or {}).items()),
            verbose=True,  # prints the source
        )

    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "printed").open("w+") as printed:
        kept = os.dup(1)
        os.dup2(printed.fileno(), 1)
        try:
            mx.export_function(str(Path(folder) / "exported"), run, *inputs)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        text = (Path(folder) / "printed").read_text()
    return text.split("```\n")[1]


def complaints(clang: str, source: str) -> str:
    """Return what clang has against a source that MLX generated, and the pointers that name no address space."""
    # As C++ clang allows arrays of another address space only where they are static, and no [[host_name]] there.
    source = source.replace("threadgroup type name[count]", "static threadgroup type name[count]")
    source = re.sub(r"template \[\[host_name\(.*?\)\]\] \[\[kernel\]\]", "template", source)
    checked = _clang(clang, _TYPES.read_text() + source, "-fsyntax-only", "-Xclang", "-ast-dump")
    expanded = _clang(clang, source, "-E", "-P").stdout
    bare = [match.group() for match in _POINTER.finditer(expanded) if not is_placed(match.group(1))]
    return (
        checked.stderr
        # C++ lets a cast change the address space, Metal does not.
        + "a cast to another address space\n" * ("<AddressSpaceConversion>" in checked.stdout)
        + "".join(f"no address space: {each.strip()}\n" for each in bare)
    )


def _clang(clang: str, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [clang, *arguments, *_COMMAND]
    return subprocess.run(command, check=False, input=source, text=True, capture_output=True)


def is_placed(declared: str) -> bool:
    """Return whether a pointer's type has an address space, or it is no type: a value that is returned."""
    words = declared.split()
    return bool(_SPACES & set(words)) or words[-1] == "return"


def checker(clang: str, seen: list[str]) -> Callable[..., list[mx.array]]:
    """Stands in for `device.launch`: checks a kernel's source, notes its name, and gives zeros."""

    def launch(
        kernel: Kernel,
        inputs: Sequence[mx.array],
        outputs: Sequence[Output],
        blocks: tuple[int, int, int],
        template: Mapping[str, Any] | None = None,
        threads: int = THREADS,
    ) -> list[mx.array]:
        assert threads % 32 == 0
        assert threads <= 1024
        seen.append(kernel.name)
        found = complaints(clang, generated(kernel, inputs, outputs, template))
        assert not found, f"{kernel.name}: {found}"
        return [mx.zeros(shape, dtype=dtype) for shape, dtype in outputs]

    return launch
