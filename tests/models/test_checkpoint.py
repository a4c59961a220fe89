"""The restricted reader, on files that torch.save wrote (tests/golden/make_checkpoints.py) and on hostile ones."""

from __future__ import annotations

import builtins
import collections
import io
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest import torch_file
from loadtest.torch_file import Global, Stored
from models.backend import mx
from models.checkpoint import read_arrays, read_torch
from models.contract import WeightsError, WeightsMissingError

GOLDEN = Path(__file__).parents[1] / "golden"


def test_every_kind_of_tensor() -> None:
    found = read_arrays(GOLDEN / "tensors.pth")
    grid = np.arange(24.0).reshape(4, 6)
    expected: dict[str, Any] = {
        "net.weight": np.arange(6).reshape(2, 3),
        "net.bias": [6, 7],
        "nested.deep.double": np.arange(3, dtype=np.float32) / 3,
        "nested.deep.long": [0, 1, 2],
        "half": np.arange(5) / 2,
        "bfloat16": np.arange(5) / 4,
        "flags": [True, False],
        "bytes": [0, 255],
        "transposed": grid.T,
        "slice": grid[1:3, ::2],
        "scalar": 7,
        "empty": np.zeros((0, 4)),
        "parameter": [0, 1],
    }
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].shape == np.shape(value), name
        assert np.allclose(np.array(found[name].astype(mx.float32)), value, atol=1e-7), name
    assert found["half"].dtype == mx.float16
    assert found["bfloat16"].dtype == mx.bfloat16
    assert found["nested.deep.double"].dtype == mx.float32


def test_a_bare_tensor_has_no_name() -> None:
    """A voice pack is one tensor and nothing around it."""
    found = read_arrays(GOLDEN / "tiny.pt")
    assert list(found) == [""]
    assert found[""].shape == (12, 1, 12)


def test_safetensors(tmp_path: Path) -> None:
    mx.save_safetensors(str(tmp_path / "a.safetensors"), {"x.y": mx.arange(3)})
    assert np.array(read_arrays(tmp_path / "a.safetensors")["x.y"]).tolist() == [0, 1, 2]


def test_lazy_arrays_take_no_memory_until_they_are_read(tmp_path: Path) -> None:
    path, value = tmp_path / "a.safetensors", mx.arange(1 << 20, dtype=mx.float32)
    mx.save_safetensors(str(path), {"a": value})
    before = mx.get_active_memory()
    found = read_arrays(path)
    assert mx.get_active_memory() - before < value.nbytes / 2
    assert bool(mx.array_equal(found["a"], value))
    mx.save_safetensors(str(path), {"a": value * float("nan")})
    with pytest.raises(WeightsError, match="a holds NaN"):
        read_arrays(path)


@pytest.mark.parametrize("name", ["model.pth", "model.safetensors"])
def test_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(WeightsMissingError, match=f"{name} does not exist"):
        read_arrays(tmp_path / name)


def test_legacy_format_is_refused_with_its_age() -> None:
    with pytest.raises(WeightsError, match=r"legacy\.pth: not a PyTorch zip checkpoint; .* before 1\.6"):
        read_arrays(GOLDEN / "legacy.pth")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("source", [GOLDEN / "tensors.pth", GOLDEN.parents[1] / "models/house/voices.safetensors"])
def test_truncated_files(tmp_path: Path, source: Path, share: float) -> None:
    cut = tmp_path / source.name
    data = source.read_bytes()
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(WeightsError, match=source.stem):
        read_arrays(cut)


def write_checkpoint(path: Path, tree: Any, storages: dict[str, bytes]) -> Path:
    """A zip in torch's layout around `tree`."""
    torch_file.write_archive(path, tree, storages)
    return path


def tensor(kind: str, count: int, offset: Any, size: Any, stride: Any) -> Global:
    """A tensor as torch pickles it."""
    return torch_file.made(Stored(kind, "0", count), offset, size, stride)


def test_the_hand_made_layout_is_read(tmp_path: Path) -> None:
    """The files below differ from a good one in what they are about, and in nothing else."""
    path = write_checkpoint(tmp_path / "a.pth", {"w": tensor("FloatStorage", 4, 0, (2, 2), (2, 1))}, {"0": bytes(16)})
    assert read_torch(path)["w"].shape == (2, 2)


@pytest.mark.parametrize(
    ("count", "offset", "size", "stride"),
    [
        (4, 0, (3, 2), (2, 1)),
        (4, 2, (2, 2), (2, 1)),
        (4, 0, (2, 2), (100, 1)),
        (4, -1, (2, 2), (2, 1)),
        (4, 0, (2, 2), (-2, 1)),
        (4, 0, (-2, 2), (2, 1)),
        (4, 0, (2, 2), (2,)),
        (4, 0, 4, 1),
        (4, "0", (2, 2), (2, 1)),
        (4, 0, (2.5, 2), (2, 1)),
        (5, 0, (2, 2), (2, 1)),
        (3, 0, (1, 1), (1, 1)),
        (4, 0, (2, 4), (0, 1)),
        (4, 0, (10**12,), (0,)),
        (4, 0, (10**9, 10**9, 10**9), (0, 0, 0)),
    ],
)
def test_tensors_beyond_their_storage_are_refused(
    tmp_path: Path, count: int, offset: Any, size: Any, stride: Any
) -> None:
    path = write_checkpoint(
        tmp_path / "a.pth", {"w": tensor("FloatStorage", count, offset, size, stride)}, {"0": bytes(16)}
    )
    with pytest.raises(WeightsError, match=r"a\.pth: damaged or not only tensors"):
        read_torch(path)


def test_tensors_that_are_not_aligned_in_the_file(tmp_path: Path) -> None:
    """PyTorch aligns them; others need not."""
    value = np.arange(6, dtype=np.float32)
    for key in ("0", "00", "000", "0000"):
        path = tmp_path / "a.pth"
        stored = torch_file.made(Stored("FloatStorage", key, 6), 0, (2, 3), (3, 1))
        write_checkpoint(path, {"w": stored}, {key: value.tobytes()})
        assert np.array(read_arrays(path)["w"]).tolist() == value.reshape(2, 3).tolist()


def test_tied_tensors_take_memory_once(tmp_path: Path) -> None:
    """Translation models have one matrix under four names, a gigabyte of it."""
    path, size = tmp_path / "a.pth", 1 << 20
    tree = {name: tensor("FloatStorage", size, 0, (size,), (1,)) for name in "abc"}
    write_checkpoint(path, tree | {"d": tensor("FloatStorage", size, 2, (3,), (1,))}, {"0": bytes(4 * size)})
    before = mx.get_active_memory()
    found = read_arrays(path)
    assert {name: array.shape for name, array in found.items()} == {"a": (size,), "b": (size,), "c": (size,), "d": (3,)}
    assert mx.get_active_memory() - before < 1.5 * 4 * size


def test_a_changed_number_is_refused(tmp_path: Path) -> None:
    """The archive's checksums are compared, also those of numbers."""
    path = write_checkpoint(tmp_path / "a.pth", {"w": tensor("FloatStorage", 4, 0, (4,), (1,))}, {"0": b"\x01" * 16})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\x01" * 16, b"\x01" * 15 + b"\x02"))
    with pytest.raises(WeightsError, match="archive/data/0 is not as it was written"):
        read_arrays(path)


class _Plain:
    """An instance of any class."""


class _Runs:
    """Calls `function(*arguments)` when unpickled without care."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda marker: _Runs(os.system, f"touch {marker}"), r"(posix|nt)\.system"),
        (lambda marker: _Runs(builtins.eval, f"open({marker!r}, 'w')"), r"builtin(s|__)\.eval"),
        (lambda marker: _Runs(builtins.exec, f"open({marker!r}, 'w')"), r"builtin(s|__)\.exec"),
        (lambda marker: _Runs(io.open, marker, "w"), r"_?io\.open"),
        (lambda marker: _Runs(builtins.getattr, os, "system"), r"builtins\.getattr|module"),
        (lambda marker: _Plain(), r"_Plain"),
        (lambda marker: np.zeros(3), r"numpy.*(_reconstruct|_frombuffer|multiarray)"),
        (lambda marker: {1, 2} if marker else None, r"set|not a tensor"),
        (lambda marker: collections.Counter("a"), r"collections\.Counter"),
    ],
)
def test_anything_but_tensors_is_refused_and_not_run(
    tmp_path: Path, make: Callable[[str], Any], named: str, protocol: int
) -> None:
    marker = tmp_path / "ran"
    path = tmp_path / "evil.pth"
    try:
        body = pickle.dumps({"w": make(str(marker))}, protocol=protocol)
    except TypeError:  # modules cannot be pickled: name the function alone
        body = b"\x80\x02cbuiltins\ngetattr\n."
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", body)
    with pytest.raises(WeightsError, match=rf"evil\.pth: .*({named})"):
        read_arrays(path)
    assert not marker.exists()


FOUR = tensor("FloatStorage", 4, 0, (4,), (1,))


@pytest.mark.parametrize(
    ("tree", "storages", "message"),
    [
        ({"w": FOUR}, {"0": bytes(15)}, "damaged"),
        ({"w": FOUR}, {"0": bytes(4)}, "damaged"),
        ({"w": FOUR}, {}, "archive/data/0"),
        ({str(k): tensor("FloatStorage", 8, k, (5,), (1,)) for k in range(4)}, {"0": bytes(32)}, "damaged"),
        ({"a" * 600: {"b" * 600: {}}}, {}, "too many"),
        ([1, 2], {}, "the file is a list"),
        ({"a": {"b": "text"}}, {}, r"a\.b is a str"),
        ({"a": None}, {}, "a is a NoneType"),
        ({3: FOUR}, {"0": bytes(16)}, "keys must be strings, not int"),
        ({"w": Stored("FloatStorage", "0", 4)}, {"0": bytes(16)}, "w is a .*, not a tensor"),
        # Names near the allowed ones.
        ({"w": Global("torch", "load", 1)}, {}, "refused to load"),
        ({"w": Global("torch.storage", "_load_from_bytes", 1)}, {}, "refused to load"),
        ({"w": Global("torch._utils", "_rebuild_device_tensor_from_numpy", 1)}, {}, "refused to load"),
        ({"w": Global("torch.serialization", "load", 1)}, {}, "refused to load"),
        ({"w": Global("models.checkpoint", "os.system", 1)}, {}, "refused to load"),
        ({"w": Global("collections", "OrderedDict.fromkeys", 1)}, {}, "refused to load"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, tree: Any, storages: dict[str, bytes], message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        read_torch(write_checkpoint(tmp_path / "a.pth", tree, storages))


def test_none_is_left_out_where_it_may_be(tmp_path: Path) -> None:
    """A file of prepared conditioning says None for what the model does not use."""
    tree = {"t3": {"clap": None, "speaker": tensor("FloatStorage", 4, 0, (4,), (1,))}, "gen": {"length": None}}
    path = write_checkpoint(tmp_path / "a.pt", tree, {"0": np.arange(4, dtype=np.float32).tobytes()})
    found = read_arrays(path, optional=True)
    assert {name: np.array(array).tolist() for name, array in found.items()} == {"t3.speaker": [0, 1, 2, 3]}
    with pytest.raises(WeightsError, match=r"t3\.clap is a NoneType"):
        read_arrays(path)
    with pytest.raises(WeightsError, match="the file is a NoneType"):
        read_arrays(write_checkpoint(tmp_path / "b.pt", None, {}), optional=True)


def test_a_dict_within_itself_ends(tmp_path: Path) -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    shared: dict[str, Any] = {}
    for _ in range(60):
        shared = {"a": shared, "b": shared}
    for name, tree in (("loop", loop), ("shared", shared)):
        with pytest.raises(WeightsError, match="appears twice"):
            read_torch(write_checkpoint(tmp_path / f"{name}.pth", tree, {}))


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    """torch.save stores; a few kilobytes that would unpack to gigabytes are not read."""
    path = tmp_path / "a.pth"
    with zipfile.ZipFile(GOLDEN / "tensors.pth") as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    with pytest.raises(WeightsError, match="compressed"):
        read_arrays(path)


def test_a_zip_of_something_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(WeightsError, match=r"no data\.pkl"):
        read_arrays(tmp_path / "a.pth")


def test_damage_anywhere_is_a_weights_error(tmp_path: Path) -> None:
    """Bytes of the pickle changed at random: tensors come out, or a WeightsError; never another exception."""
    rng, refused = random.Random(0), 0
    with zipfile.ZipFile(GOLDEN / "tensors.pth") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    pickled = next(name for name in files if name.endswith("data.pkl"))
    for attempt in range(400):
        body = bytearray(files[pickled])
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        path = tmp_path / f"{attempt}.pth"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in {**files, pickled: bytes(body)}.items():
                archive.writestr(name, data)
        try:
            read_arrays(path)
        except WeightsError:
            refused += 1
    assert refused > 100


def test_damage_to_the_archive_is_a_weights_error(tmp_path: Path) -> None:
    rng, data = random.Random(1), (GOLDEN / "tensors.pth").read_bytes()
    for attempt in range(200):
        body = bytearray(data)
        for _ in range(rng.randint(1, 40)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        path = tmp_path / f"{attempt}.pth"
        path.write_bytes(body)
        try:
            read_arrays(path)
        except WeightsError as error:
            assert path.name in str(error)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.pth").mkdir()
    with pytest.raises(WeightsMissingError):
        read_arrays(tmp_path / "model.pth")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16])
def test_numbers_that_are_none_are_refused_with_their_array(tmp_path: Path, value: float, dtype: mx.Dtype) -> None:
    good = mx.full((3, 5), 6e4, dtype)
    path = tmp_path / "a.safetensors"
    mx.save_safetensors(str(path), {"good": good, "counts": mx.array([1, 2])})
    assert set(read_arrays(path)) == {"good", "counts"}
    bad = mx.array(good)
    bad[2, 4] = value
    mx.save_safetensors(str(path), {"good": good, "bad.weight": bad, "none": mx.zeros((0,), dtype)})
    with pytest.raises(WeightsError, match=r"a\.safetensors: bad\.weight holds NaN or infinity$"):
        read_arrays(path)
