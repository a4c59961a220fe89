"""The measurement of Kokoro's kernels, on an emulated GPU."""

from __future__ import annotations

import pytest

from loadtest import kokoro_kernels
from models.backend import mx
from models.kokoro import adain_kernels, source
from models.layers import adain, lstm, residual_blocks
from models.layers.kernels.device import Device
from tests.models.activated_conv import emulated
from tests.models.emulator import DEVICES, launcher

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("device", DEVICES)
def test_every_kernel_has_a_row(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the size of the least sentence; a kernel that differs is named."""
    monkeypatch.setattr(kokoro_kernels, "SENTENCES", {1: 1})
    monkeypatch.setattr(kokoro_kernels, "CALLS", 1)
    monkeypatch.setattr(lstm, "gpu", lambda: device)
    for module in (adain, lstm, source):
        monkeypatch.setattr(module, "launch", launcher(device))
    rows = kokoro_kernels.table(1, mx.bfloat16).splitlines()[4:]
    assert [each.split(",")[0] for each in rows] == ["| LSTM"] * 2 + ["| AdaIN and LeakyReLU"] + [
        "| AdaIN and Snake"
    ] * 2 + ["| harmonic source"]
    assert not any("DIFFERS" in each for each in rows)
    monkeypatch.setattr(source, "launch", launcher(device, change=("2.0f * 3.14", "2.0f * 3.15")))
    assert "DIFFERS" in kokoro_kernels.row(kokoro_kernels.source_case(4), 1)


def test_residual_blocks_have_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that CUDA alone has, at small sizes."""
    monkeypatch.setattr(kokoro_kernels, "CALLS", 1)
    for user in (adain_kernels, residual_blocks):
        emulated(monkeypatch, user)
    rows = [
        kokoro_kernels.row(case, 1) for case in (kokoro_kernels.curves_case(4, 128), kokoro_kernels.stage_case(9, 64))
    ]
    assert [each.split(",")[0] for each in rows] == ["| curves", "| residual blocks"]
    assert not any("DIFFERS" in each for each in rows)
