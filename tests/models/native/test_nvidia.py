"""A driver that is missing is named before MLX is loaded, which cannot be loaded without it then."""

from __future__ import annotations

import ctypes

import pytest

from app import main
from models.native import nvidia


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(nvidia, "distributions", lambda name: [name] if name in names else [])


def test_a_missing_driver_ends_the_start_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(monkeypatch, "mlx", "mlx-cuda-13")
    monkeypatch.setattr(nvidia, "_DRIVER", "libno-such-driver.so.1")
    assert main.main(["serve", "--port", "0"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "there is no driver (" in error
    assert "--gpus all" in error


def test_a_driver_that_is_there_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "mlx-cuda-13")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    assert nvidia.driver_problem() is None


def test_an_installation_for_processors_needs_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "mlx", "mlx-cpu")
    monkeypatch.setattr(nvidia, "_DRIVER", "libno-such-driver.so.1")
    assert nvidia.driver_problem() is None
