"""Arrays on their way to a GPU and back."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from models.backend import mx
from models.layers.kernels import agreement, host_memory
from models.layers.kernels.host_memory import downloaded, upload
from models.native import nvidia
from tests.models.emulator import launcher

MANY = host_memory._MIN_WORDS + 5


@pytest.fixture
def on_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (host_memory, agreement):
        monkeypatch.setattr(module, "gpu", lambda: "metal")
    monkeypatch.setattr(host_memory, "on_cpu", lambda: False)


@pytest.fixture
def on_cuda(monkeypatch: pytest.MonkeyPatch, on_metal: None) -> list[str]:
    """An emulated GPU; returns the names of the kernels that it has run."""
    return emulated(monkeypatch)


def emulated(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str] = ("", "")) -> list[str]:
    seen: list[str] = []
    for module in (host_memory, agreement):
        monkeypatch.setattr(module, "gpu", lambda: "cuda")
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(host_memory, "_free", {})
    monkeypatch.setattr(host_memory, "launch", launcher("cuda", backward=True, change=change, seen=seen))
    host_memory._uploads.cache_clear()
    return seen


def some_arrays() -> list[np.ndarray]:
    rng = np.random.RandomState(0)
    return [
        rng.randint(-9, 9, (2, 37)).astype(np.int32),
        rng.standard_normal((3, 130)).astype(np.float32).T,
        np.array([[2**32 - 1, 5]], dtype=np.uint32),
        np.zeros((0,), dtype=np.float32),
        np.array([7], dtype=np.int32),
    ]


def check(found: list[mx.array], wanted: list[np.ndarray]) -> None:
    for one, other, array in zip(found, map(mx.array, wanted), wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, array.shape)
        assert np.array_equal(np.array(one), array)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the arrays that MLX is given."""
    made: list[int] = []
    kind = mx.array

    def counting(given: np.ndarray) -> mx.array:
        made.append(given.size)
        return kind(given)

    monkeypatch.setattr(mx, "array", counting)
    return made


def test_arrays_on_a_processor() -> None:
    check(upload(*some_arrays()), some_arrays())
    with downloaded(mx.arange(5)) as found:
        assert found.tolist() == [0, 1, 2, 3, 4]


def test_arrays_arrive_together(on_metal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU they are parts of one array, with their own types and shapes."""
    made = counted(monkeypatch)
    found = upload(*some_arrays())
    monkeypatch.undo()
    assert len(made) == 1
    check(found, some_arrays())


def test_arrays_through_shared_memory(on_cuda: list[str]) -> None:
    """Neither side waits for pages. More uploads than there is memory for, all before any is read."""
    arrays = [some_arrays() for _ in range(6)]
    for number, each in enumerate(arrays):
        each[0] += number
    found = [upload(*each) for each in arrays]
    for one, wanted in zip(found, arrays, strict=True):
        check(one, wanted)
    assert on_cuda.count("nightingale_upload") == 3 + 6  # three for the comparison
    for array in (mx.arange(7).astype(mx.float32) / 3, mx.arange(MANY, dtype=mx.int32).reshape(1, -1), mx.zeros(1)):
        with downloaded(array) as numbers:
            assert numbers.tolist() == array.tolist()
    assert on_cuda.count("nightingale_download") == 3 + 3


def test_a_download_of_a_part(on_cuda: list[str]) -> None:
    whole = mx.arange(60, dtype=mx.float32).reshape(6, 10)
    with downloaded(whole[1:4, 2:5].T) as found:
        assert found.tolist() == whole[1:4, 2:5].T.tolist()
    with downloaded(whole[:0]) as found:
        assert found.shape == (0, 10)


def test_downloads_within_another(on_cuda: list[str]) -> None:
    """Each has its own memory, which later ones use again."""
    for _ in range(3):
        with downloaded(mx.arange(5)) as one, downloaded(-mx.arange(5)) as other:
            assert one.tolist() == [0, 1, 2, 3, 4]
            assert other.tolist() == [0, -1, -2, -3, -4]
    assert [len(kept) for kept in host_memory._free.values()] == [2]


def test_memory_is_kept_when_its_user_fails(on_cuda: list[str]) -> None:
    with pytest.raises(RuntimeError), downloaded(mx.arange(5)):
        raise RuntimeError
    assert [len(kept) for kept in host_memory._free.values()] == [1]


def test_a_large_upload_takes_mlxs_way(on_cuda: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    upload(*some_arrays())
    before, made = len(on_cuda), counted(monkeypatch)
    array = np.arange(MANY, dtype=np.int32)
    (found,) = upload(array)
    assert np.array_equal(np.array(found), array)
    assert made[0] >= MANY
    assert len(on_cuda) == before


def test_a_wrong_copy_is_left_out(
    on_metal: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen = emulated(monkeypatch, ("onto)[i] =", "onto)[i + (i == 900)] ="))
    (found,) = upload(np.arange(9, dtype=np.int32))
    with downloaded(found) as numbers:
        assert numbers.tolist() == list(range(9))
    assert seen.count("nightingale_upload") == 3
    assert "memory shared with the host differ from plain operations by [0.0, 1.0, 1.0]" in caplog.text


def test_memory_stays_with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is asked to keep pages there, and to let the GPU reach them. It may refuse."""
    asked: list[tuple[int, ...]] = []

    def advise(*given: int) -> int:
        asked.append(given)
        return int(given[0] == 0)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuMemAdvise=advise))
    assert nvidia.keep_on_host(4096, 8192)
    assert asked == [(4096, 8192, 3, -1), (4096, 8192, 5, 0)]
    assert not nvidia.keep_on_host(0, 8192)

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not nvidia.keep_on_host(4096, 8192)
