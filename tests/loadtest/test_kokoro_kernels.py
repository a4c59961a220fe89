"""The measurement of Kokoro's kernels, on an emulated GPU."""

from __future__ import annotations

import pytest

from loadtest import kokoro_kernels
from models.backend import mx
from models.kokoro import source
from models.layers import adain, lstm
from models.layers.kernels.device import Device
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


def test_a_cpu_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kokoro_kernels"])
    monkeypatch.setattr(kokoro_kernels, "gpu", lambda: None)
    with pytest.raises(SystemExit):
        kokoro_kernels.main()
    assert "no GPU here" in capsys.readouterr().err
