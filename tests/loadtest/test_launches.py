"""loadtest/launches.py where there is no GPU, and its kernels on the emulated one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from loadtest import kokoro_kernels, launches, vocoder_kernels
from models.backend import mx
from tests.models.emulator import launcher


def test_a_chain_is_timed() -> None:
    building, sending, all_of_it = launches.measure(lambda x: x + 1, 3, 2)
    assert 0 < building < all_of_it
    assert 0 < sending < all_of_it


@pytest.mark.parametrize("script", [launches, kokoro_kernels, vocoder_kernels])
def test_without_a_gpu_it_says_so(script: ModuleType, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr("sys.argv", ["script"])
    monkeypatch.setattr(script, "gpu", lambda: None)
    with pytest.raises(SystemExit):
        script.main()
    assert "GPU" in capsys.readouterr().err


@pytest.mark.parametrize("spec", launches.SPECS)
def test_its_kernels_add_one(spec: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "launch", launcher("cuda"))
    found = launches.own(*spec)(mx.arange(float(launches.SIZE)))
    np.testing.assert_array_equal(np.array(found), np.arange(launches.SIZE) + 1)
