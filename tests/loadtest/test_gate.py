"""Comparison of measured ratios with kept ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loadtest import gate

ROWS = {"nightingale fp32": {"median_ms": 30.0}, "pytorch fp32": {"median_ms": 60.0}, "onnx": {"median_ms": 40.0}}
RATIOS = {"short: nightingale fp32 / pytorch fp32": 0.5, "short: nightingale fp32 / onnx": 0.75}


def test_ratios_are_ours_to_each_peer() -> None:
    assert gate.ratios_of("short", ROWS) == RATIOS


def test_only_what_is_beyond_the_allowance_is_worse() -> None:
    kept = {"a": 0.5, "b": 0.5, "gone": 1.0}
    lines = gate.worse({"a": 0.57, "b": 0.58, "new": 9.0}, kept)
    assert lines == ["gone: not measured", "b: 0.58 instead of 0.50"]


@pytest.mark.parametrize(("kept", "status"), [(0.5, None), (0.4, 1), (None, 2)])
def test_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: float | None, status: int | None) -> None:
    path = tmp_path / "gate.json"
    monkeypatch.setattr(gate, "KEPT", path)
    monkeypatch.setattr(gate, "measure", lambda runs: {"a": 0.5})
    monkeypatch.setattr(sys, "argv", ["gate.py", "--keep"])
    gate.main()
    everything: dict[str, Any] = json.loads(path.read_text())
    ((instructions, ratios),) = everything.items()
    assert ratios == {"a": 0.5}
    path.write_text(json.dumps({} if kept is None else {instructions: {"a": kept}}))
    monkeypatch.setattr(sys, "argv", ["gate.py"])
    with pytest.raises(SystemExit) as ended:
        gate.main()
    assert ended.value.code == (status or 0)
