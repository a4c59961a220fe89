"""Write PyTorch's zip format without PyTorch: what `models.checkpoint.read_torch` reads."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tree = Mapping[str, Any]  # of arrays, None, and further such trees

_STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "int64": "LongStorage", "int32": "IntStorage"}


class _Global:
    """A class or function of PyTorch's, called with `arguments` where there are any."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.module, self.name, self.arguments = module, name, arguments


class _Stored:
    """The storage of one array, in a file of its own beside the pickle."""

    def __init__(self, kind: str, key: str, count: int) -> None:
        self.kind, self.key, self.count = kind, key, count


# Python's own pickler: the C one cannot write globals that are not importable here.
_Base: Any = vars(pickle)["_Pickler"]


class _Pickler(_Base):
    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, _Stored):
            return ("storage", _Global("torch", thing.kind), thing.key, "cpu", thing.count)
        return None

    def save(self, thing: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(thing, _Global):
            super().save(thing, save_persistent_id)
            return
        self.write(b"c" + f"{thing.module}\n{thing.name}\n".encode())
        if thing.arguments:
            super().save(thing.arguments)
            self.write(b"R")


def write(path: Path, tree: Tree) -> None:
    """Write `tree` to `path` as `torch.save` would. Raises KeyError for arrays of other than the usual types."""
    storages: list[bytes] = []

    def tensor(array: npt.NDArray[Any]) -> _Global:
        whole = np.array(array, order="C")
        stride = tuple(step // whole.itemsize for step in whole.strides)
        stored = _Stored(_STORAGES[whole.dtype.name], str(len(storages)), whole.size)
        storages.append(whole.tobytes())
        hooks: OrderedDict[str, Any] = OrderedDict()
        return _Global("torch._utils", "_rebuild_tensor_v2", stored, 0, whole.shape, stride, False, hooks)

    def translate(node: Any) -> Any:
        if isinstance(node, Mapping):
            return {key: translate(value) for key, value in node.items()}
        return tensor(node) if isinstance(node, np.ndarray) else node

    body = io.BytesIO()
    _Pickler(body, 2).dump(translate(tree))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", body.getvalue())
        archive.writestr("archive/version", "3\n")  # PyTorch asks for it
        archive.writestr("archive/byteorder", sys.byteorder)
        for key, data in enumerate(storages):
            archive.writestr(f"archive/data/{key}", data)
