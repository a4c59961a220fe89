"""Write PyTorch's zip format without PyTorch, for `models.checkpoint.read_torch`."""

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


class Global:
    """A class or function of PyTorch's, called with `arguments` where there are any."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.module, self.name, self.arguments = module, name, arguments


class Stored:
    """The storage of one array, in a file of its own beside the pickle."""

    def __init__(self, kind: str, key: str, count: int) -> None:
        self.kind, self.key, self.count = kind, key, count


# Python's own pickler: the C one cannot write globals that are not importable here.
_Base: Any = vars(pickle)["_Pickler"]


class Pickler(_Base):
    """Writes `Global` as the bare name of something to import, and `Stored` by a persistent id."""

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, Stored):
            return ("storage", Global("torch", thing.kind), thing.key, "cpu", thing.count)
        return None

    def save(self, thing: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(thing, Global):
            super().save(thing, save_persistent_id)
            return
        self.write(b"c" + f"{thing.module}\n{thing.name}\n".encode())
        if thing.arguments:
            super().save(thing.arguments)
            self.write(b"R")


def write(path: Path, tree: Tree) -> None:
    """Write `tree` to `path` as `torch.save` would; one array in several places is stored once.

    Raises KeyError for arrays of other than the usual types.
    """
    storages: dict[str, bytes] = {}
    keys: dict[int, str] = {}

    def tensor(array: npt.NDArray[Any]) -> Global:
        whole = np.array(array, order="C")
        stride = tuple(step // whole.itemsize for step in whole.strides)
        key = keys.setdefault(id(array), str(len(keys)))
        storages.setdefault(key, whole.tobytes())
        stored = Stored(_STORAGES[whole.dtype.name], key, whole.size)
        return made(stored, 0, whole.shape, stride)

    def translate(node: Any) -> Any:
        if isinstance(node, Mapping):
            return {key: translate(value) for key, value in node.items()}
        return tensor(node) if isinstance(node, np.ndarray) else node

    write_archive(path, translate(tree), storages)


def made(stored: Stored, offset: Any, size: Any, stride: Any) -> Global:
    """Return a tensor as torch pickles it."""
    hooks: OrderedDict[str, Any] = OrderedDict()
    return Global("torch._utils", "_rebuild_tensor_v2", stored, offset, size, stride, False, hooks)


def write_archive(path: Path, tree: Any, storages: Mapping[str, bytes]) -> None:
    """Write a zip in torch's layout around the pickled `tree`."""
    body = io.BytesIO()
    Pickler(body, 2).dump(tree)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", body.getvalue())
        archive.writestr("archive/version", "3\n")  # PyTorch asks for it
        archive.writestr("archive/byteorder", sys.byteorder)
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
