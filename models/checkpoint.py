"""Read checkpoint files into named arrays, and nothing but arrays.

It reads safetensors, numpy's `.npz`, and PyTorch's zip format (`.pth`, `.pt`, `.bin`) by a restricted reader: the
pickle inside may name only tensors, their storages and plain containers. Anything else is refused before it can run.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from models import finite, loading
from models.backend import mx
from models.contract import WeightsError, WeightsMissingError

Array = npt.NDArray[Any]

# Bytes of the header before a file in a zip archive, and where it says how long the name and the rest are.
_ZIP_HEADER, _ZIP_LENGTHS = 30, 26
# Dicts of a checkpoint, which lie in each other, and characters of a name that they have together.
_MAX_DICTS, _MAX_NAME = 200, 1_000

_STORAGES: dict[str, Any] = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": "bfloat16",
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


def read_arrays(path: str | Path, *, optional: bool = False) -> dict[str, mx.array]:
    """Read every array in `path`, nested names joined with dots (a bare tensor is named "").

    Arrays of safetensors take no memory until they are evaluated.

    Args:
        path: A file in safetensors', numpy's (.npz) or PyTorch's format.
        optional: Entries may be None instead of a tensor (PyTorch's format only); they are left out.

    Raises:
        WeightsMissingError: There is no such file.
        WeightsError: It is damaged, holds anything but tensors, or a number that is not finite.
    """
    path = Path(path)
    if not path.is_file():
        raise WeightsMissingError(f"{path} does not exist")
    if path.suffix in (".safetensors", ".npz"):
        arrays, stored = _load_mlx(path)
        raise_problems(finite.broken(stored), str(path))
        return arrays
    return _to_mlx(read_torch(path, optional=optional), path)


def _load_mlx(path: Path) -> tuple[dict[str, mx.array], dict[str, Array]]:
    """Read a file of safetensors or of numpy's arrays; return its arrays, and those of floats as numpy's."""
    try:
        loaded = mx.load(str(path))
        assert isinstance(loaded, dict)  # noqa: S101  (both kinds always are)
        if path.suffix == ".safetensors":
            return loaded, finite.safetensors_floats(path)
        bits = {name: array.view(mx.uint16) for name, array in loaded.items() if array.dtype == mx.bfloat16}
        floats = {name: array for name, array in loaded.items() if mx.issubdtype(array.dtype, mx.floating)}
        return loaded, {name: np.asarray(array) for name, array in (floats | bits).items()}
    except (RuntimeError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise WeightsError(f"{path}: damaged {path.suffix[1:]} file: {error}") from error


def check_shapes(
    arrays: Mapping[str, mx.array], wanted: Mapping[str, tuple[int, ...]], source: str, *, floating: bool = True
) -> None:
    """Raise WeightsError, naming each problem, unless `arrays` has exactly the names and shapes `wanted`, as floats."""
    problems = [f"missing {name} {wanted[name]}" for name in sorted(set(wanted) - set(arrays))]
    problems += [f"unexpected {name} {arrays[name].shape}" for name in sorted(set(arrays) - set(wanted))]
    for name in sorted(set(arrays) & set(wanted)):
        if arrays[name].shape != wanted[name]:
            problems.append(f"{name} has shape {arrays[name].shape}, not {wanted[name]}")
        elif floating and not mx.issubdtype(arrays[name].dtype, mx.floating):
            problems.append(f"{name} is {arrays[name].dtype}, not a float type")
    raise_problems(problems, source)


def raise_problems(problems: Sequence[str], source: str) -> None:
    """Raise WeightsError listing the first of `problems`, if there are any."""
    if problems:
        shown = "; ".join(problems[:8]) + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")
        raise WeightsError(f"{source}: {shown}")


def _to_mlx(tensors: Mapping[str, Array], path: Path) -> dict[str, mx.array]:
    """Return the tensors of a PyTorch file as MLX's; tied ones are one array. Raises WeightsError unless finite."""
    names = {id(array): name for name, array in tensors.items()}
    raise_problems(finite.broken({name: tensors[name] for name in names.values()}), str(path))
    made = {key: _one_to_mlx(tensors[name]) for key, name in names.items()}
    return {name: made[id(array)] for name, array in tensors.items()}


def _one_to_mlx(array: Array) -> mx.array:
    loading.step()
    if array.dtype == np.uint16:  # bfloat16 bits
        return mx.array(array).view(mx.bfloat16)
    return mx.array(array.astype(np.float32) if array.dtype == np.float64 else array)


def read_torch(path: Path, *, optional: bool = False) -> dict[str, Array]:
    """Read the tensors of a PyTorch zip checkpoint as numpy arrays, bfloat16 as its bits in uint16.

    With `optional`, entries that are None are left out. Raises WeightsError.
    """
    return dict(_flatten(_read_tree(path), path, optional, set()))


def read_torch_parts(path: str | Path, numbers: str, tensors: str) -> tuple[dict[str, Any], dict[str, mx.array]]:
    """Read a PyTorch zip checkpoint of two dicts, named `numbers` and `tensors`; the second as `read_arrays` does.

    Raises WeightsMissingError and WeightsError.
    """
    path = Path(path)
    if not path.is_file():
        raise WeightsMissingError(f"{path} does not exist")
    tree = _read_tree(path)
    if not isinstance(tree, Mapping) or not all(isinstance(tree.get(key), Mapping) for key in (numbers, tensors)):
        raise WeightsError(f"{path}: not a checkpoint with {numbers} and {tensors}")
    return dict(tree[numbers]), _to_mlx(dict(_flatten(tree[tensors], path, False, set())), path)


def _read_tree(path: Path) -> Any:
    """Read the containers of a PyTorch zip checkpoint, tensors in them as numpy arrays. Raises WeightsError."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(names) != 1:
                raise WeightsError(f"{path}: not a PyTorch checkpoint (no data.pkl in the archive)")
            parts = archive.infolist()
            stored = all(part.compress_type == zipfile.ZIP_STORED for part in parts)
            if not stored or sum(part.file_size for part in parts) > path.stat().st_size:
                # torch.save only stores; compression, or parts that overlap, would let a small file fill the memory.
                raise WeightsError(f"{path}: not a PyTorch checkpoint (its archive is compressed)")
            reader = _TensorUnpickler(archive, names[0], path)
            return reader.load()
    except WeightsError:
        raise
    except zipfile.BadZipFile as error:
        raise WeightsError(
            f"{path}: not a PyTorch zip checkpoint; files of PyTorch before 1.6 are not accepted"
        ) from error
    except Exception as error:  # a damaged archive or pickle raises almost any error, MemoryError included
        raise WeightsError(f"{path}: damaged or not only tensors: {error}") from error


def _flatten(tree: Any, path: Path, optional: bool, seen: set[int], prefix: str = "") -> Iterator[tuple[str, Array]]:
    if isinstance(tree, np.ndarray):
        yield prefix, tree
    elif isinstance(tree, Mapping):
        # A dict within itself, one shared so often that the walk would not end, or names that fill the memory.
        if id(tree) in seen or len(seen) > _MAX_DICTS or len(prefix) > _MAX_NAME:
            raise WeightsError(f"{path}: {prefix[:80] or 'the file'} is a dict that appears twice, or one of too many")
        seen.add(id(tree))
        for key, value in tree.items():
            if not isinstance(key, str):
                raise WeightsError(f"{path}: keys must be strings, not {type(key).__name__}")
            if value is not None or not optional:
                yield from _flatten(value, path, optional, seen, f"{prefix}.{key}" if prefix else key)
    else:
        raise WeightsError(f"{path}: {prefix or 'the file'} is a {type(tree).__name__}, not a tensor")


class _Storage:
    """Typed run of bytes inside the archive, and the tensors on it by offset, size and stride."""

    def __init__(self, kind: Any, data: memoryview) -> None:
        self.values: Array = np.frombuffer(data, dtype=np.uint16 if kind == "bfloat16" else kind)
        self.tensors: dict[Any, Array] = {}
        # Numbers that further tensors may have: each is a copy in the end, and few share theirs.
        self.left = 2 * len(self.values)


class _StorageType:
    def __init__(self, kind: Any) -> None:
        self.kind = kind


def _rebuild_tensor(
    storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_rest: Any
) -> Array:
    values = storage.values
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else offset
    if offset < 0 or min((*size, *stride, 0)) < 0 or last >= max(1, len(values)) or math.prod(size) > len(values):
        raise ValueError(f"tensor of shape {size} reaches outside its storage")
    key = (offset, size, stride)
    if key not in storage.tensors:
        storage.left -= math.prod(size)
        if storage.left < 0:
            raise ValueError("its tensors share their numbers")
        item = values.dtype.itemsize
        view = np.lib.stride_tricks.as_strided(values[offset:], size, [s * item for s in stride])
        # Other programs than PyTorch may not align their tensors.
        storage.tensors[key] = np.require(view, requirements=("C", "A")).reshape(size)
    return storage.tensors[key]


def _rebuild_parameter(data: Array, *_rest: Any) -> Array:
    return data


class _TensorUnpickler(pickle._Unpickler):
    """Pickle reader for tensors and containers only (the approach of Python's pickle documentation).

    It is the one in Python: that in C takes memory up to any number that a file gives to a part of it.
    """

    def __init__(self, archive: zipfile.ZipFile, name: str, path: Path) -> None:
        super().__init__(io.BytesIO(archive.read(name)))
        self._archive, self._folder, self._path = archive, name[: -len("data.pkl")], path
        self._file = finite.mapped(path)
        self._cache: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
            ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
        }
        if (module, name) in allowed:
            return allowed[module, name]
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _StorageType(_STORAGES[name])
        return self._refuse(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, storage_type, key, _device, count = pid
        if kind != "storage" or not isinstance(storage_type, _StorageType):
            self._refuse(f"persistent object {kind!r}")
        if key not in self._cache:
            storage = _Storage(storage_type.kind, self._bytes(self._archive.getinfo(f"{self._folder}data/{key}")))
            if len(storage.values) != count:
                raise ValueError(f"storage {key} has {len(storage.values)} elements, not {count}")
            self._cache[key] = storage
        return self._cache[key]

    def _bytes(self, info: zipfile.ZipInfo) -> memoryview:
        """Return the bytes of a stored file of the archive, in the mapped file. Raises ValueError where they differ."""
        start = info.header_offset + _ZIP_HEADER
        start += sum(struct.unpack_from("<HH", self._file, info.header_offset + _ZIP_LENGTHS))
        found = self._file[start : start + info.file_size]
        if zlib.crc32(found) != info.CRC:
            raise ValueError(f"{info.filename} is not as it was written")
        return found

    def _refuse(self, what: str) -> NoReturn:
        raise WeightsError(f"{self._path}: refused to load {what}: only tensors are accepted in a checkpoint")
