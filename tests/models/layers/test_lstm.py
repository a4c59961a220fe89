"""The LSTMs against PyTorch's values (tests/golden/make_layers.py)."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.layers import lstm
from models.layers.conv import PaddingMask
from models.layers.kernels import agreement
from models.layers.kernels.agreement import relative_difference
from models.layers.kernels.device import Device
from models.native import kernels as native
from tests.golden.layer_cases import LSTM
from tests.models.emulator import DEVICES, launcher
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden


@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize("name", LSTM)
def test_lstm_equals_torch(name: str, extra: int) -> None:
    """Padding may hold rubbish, and more rows than the longest sequence."""
    assert checks.lstm(LSTM[name], golden("lstm", name), extra) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "hidden", "counts"),
    [
        ("cuda", 64, (1, 5, 4)),
        ("metal", 64, (1, 5, 4)),
        pytest.param("metal", 32, (6,), marks=pytest.mark.proof),
        pytest.param("cuda", 256, (3,), marks=pytest.mark.proof),
    ],
)
def test_the_kernel_equals_plain_operations(
    device: Device, hidden: int, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that meet at each step, and one block a direction; the barrier's counters are as before."""
    emulated(device, monkeypatch, backward=True)
    assert apart(hidden, counts) < 1e-5
    assert not np.array(lstm._meetings(2 * len(counts), 32 + 2 * hidden))[:, :32].any()


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("device", DEVICES)
def test_the_kernel_on_random_shapes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(device, monkeypatch)
    rng = np.random.RandomState(0)
    for _ in range(6):
        counts = tuple(int(each) for each in rng.randint(1, 12, rng.randint(1, 4)))
        assert apart(32, counts) < 1e-5, counts


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_the_layer_uses_its_kernel(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, once it has agreed with plain operations."""
    monkeypatch.setattr(native, "module", lambda: None)
    layer = lstm.BiLSTM(6, 32)
    layer.apply(lambda array: 0.3 * mx.random.normal(array.shape))
    layer.lower()
    x, valid = mx.random.normal((2, 7, 6)), PaddingMask.of(mx.array([7, 3])[:, None, None], 7)
    wanted = layer(x, valid)
    seen: list[str] = []
    emulated(device, monkeypatch)
    monkeypatch.setattr(lstm, "launch", launcher(device, seen=seen))
    monkeypatch.setattr(agreement, "gpu", lambda: device)
    monkeypatch.setattr(agreement, "_found", {})
    for _ in range(2):
        assert relative_difference(layer(x, valid), wanted) < 1e-5
    assert seen == ["nightingale_lstm"] * 3
    assert [each.used for each in agreement.report()] == [True]


@pytest.mark.parametrize(
    ("device", "found"), [("cuda", [False, True, True, True]), ("metal", [False, True, False, True])]
)
def test_which_sizes_have_a_kernel(device: Device, found: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm, "gpu", lambda: device)
    assert [lstm.fits(hidden) for hidden in (24, 32, 160, 256)] == found


def emulated(device: Device, monkeypatch: pytest.MonkeyPatch, *, backward: bool = False) -> None:
    monkeypatch.setattr(lstm, "gpu", lambda: device)
    monkeypatch.setattr(lstm, "launch", launcher(device, backward=backward))


def apart(hidden: int, counts: tuple[int, ...]) -> float:
    rng, rows = np.random.RandomState(hidden), max(counts)
    xp = mx.array(rng.standard_normal((len(counts), rows, 8 * hidden)).astype(np.float32))
    wh = mx.array((rng.standard_normal((2, hidden, 4 * hidden)) / hidden**0.5).astype(np.float32))
    valid = PaddingMask.of(mx.array(counts)[:, None, None], rows)
    found = lstm.bilstm_kernel(xp, wh, valid.number(xp))
    return relative_difference(found, lstm.bilstm_reference(xp, wh, valid.mask))
