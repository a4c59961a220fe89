"""AdaIN's kernels with the activation behind it, on an emulated GPU of either kind, against plain operations."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.layers import adain
from models.layers.conv import PaddingMask
from models.layers.kernels.agreement import relative_difference
from models.layers.kernels.device import Device
from tests.models.emulator import DEVICES, launcher

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

Shape = tuple[int, int, int, tuple[int, ...]]
FEW, MANY = (2, 64, 48, (64, 31)), (2, 1100, 48, (1100, 131))  # rows for one kernel, and for two


def given(batch: int, length: int, channels: int, dtype: mx.Dtype) -> list[mx.array]:
    keys = mx.random.split(mx.random.key(length), 3)
    x = 3 * mx.random.normal((batch, length, channels), key=keys[0]) + 20  # far from a mean of zero
    affine, alpha = mx.random.normal((batch, 2 * channels), key=keys[1]), mx.random.uniform(0.5, 3, (channels,))
    return [each.astype(dtype) for each in (x, affine, alpha)]


def differences(shape: Shape, dtype: mx.Dtype) -> list[float]:
    """LeakyReLU's, and Snake's."""
    batch, length, channels, counts = shape
    x, affine, alpha = given(batch, length, channels, dtype)
    valid = PaddingMask.of(mx.array(counts)[:, None, None], length)
    single = [each.astype(mx.float32) for each in (x, affine, alpha)]
    wanted = adain.adain_leaky_reference(*single[:2], valid), adain.adain_snake_reference(*single, valid)
    found = (adain.adain_kernel(x, affine, which, valid.number(x)) for which in (None, alpha))
    return [relative_difference(one, other) for one, other in zip(found, wanted, strict=True)]


@pytest.mark.parametrize(
    ("device", "shape"),
    [
        ("cuda", FEW),
        ("metal", FEW),
        ("cuda", (1, 1090, 33, (1070,))),
        ("metal", MANY),
        pytest.param("cuda", (1, 40, 32, (40,)), marks=proof),
        pytest.param("metal", (2, 300, 48, (300, 131)), marks=proof),
        pytest.param("cuda", (3, 70, 5, (1, 70, 64)), marks=proof),
        pytest.param("metal", (1, 290, 33, (270,)), marks=proof),
    ],
)
def test_kernels_equal_plain_operations(device: Device, shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel and two, channels that fill no warp, one valid row; later threads first."""
    monkeypatch.setattr(adain, "launch", launcher(device, backward=True))
    assert max(differences(shape, mx.float32)) < 1e-4


@proof
@pytest.mark.parametrize("device", DEVICES)
def test_random_shapes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adain, "launch", launcher(device))
    rng = np.random.RandomState(0)
    for _ in range(8):
        batch, length, channels = (int(rng.randint(1, most)) for most in (4, 300, 80))
        counts = tuple(int(each) for each in rng.randint(1, length + 1, batch))
        assert max(differences((batch, length, channels, counts), mx.float32)) < 1e-4, (batch, length, channels, counts)


@proof
def test_kernels_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adain, "launch", launcher("cuda"))
    assert max(differences((2, 300, 48, (300, 131)), mx.bfloat16)) < 5e-3


@pytest.mark.parametrize(
    ("device", "shape", "dtype"),
    [("cuda", FEW, mx.float32), ("metal", FEW, mx.bfloat16), ("cuda", MANY, mx.bfloat16), ("metal", MANY, mx.float32)],
)
def test_a_sum_is_normalized_and_kept(
    device: Device, shape: Shape, dtype: mx.Dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On padding both results are zero, whatever memory held before."""
    monkeypatch.setattr(adain, "launch", launcher(device, backward=True))
    batch, length, channels, counts = shape
    x, affine, alpha = given(batch, length, channels, dtype)
    more = mx.random.normal(x.shape, key=mx.random.key(5)).astype(dtype)
    valid = PaddingMask.of(mx.array(counts)[:, None, None], length)
    y, total = adain.adain_of_sum_kernel(x, more, affine, alpha, valid.number(x))
    wanted = adain.adain_kernel(x + more, affine, alpha, valid.number(x))
    assert mx.array_equal(total, valid.zero(x + more))
    assert relative_difference(y, wanted) < (1e-6 if dtype == mx.float32 else 1e-3)


def test_several_share_the_moments_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(adain, "launch", launcher("cuda", seen=seen))
    for length in (adain._FEW_ROWS, adain._FEW_ROWS + 1):
        x, affine, alpha = given(1, length, 5, mx.float32)
        count = mx.array([length - 3])
        partial = adain.adain_moments(x, count)
        assert (partial is None) == (length == adain._FEW_ROWS)
        seen.clear()
        found = adain.adain_kernel(x, affine, alpha, count, partial)
        assert len(seen) == 1
        assert mx.array_equal(found, adain.adain_kernel(x, affine, alpha, count))


def test_few_rows_are_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(adain, "launch", launcher("cuda", seen=seen))
    adain._difference(adain._FEW_ROWS, mx.float32)
    assert set(seen) == {"nightingale_adain_whole", "nightingale_sum_adain_whole"}
    seen.clear()
    adain._difference(adain._FEW_ROWS + 1, mx.float32)
    assert set(seen) == {"nightingale_moments", "nightingale_sum_moments", "nightingale_adain"}
