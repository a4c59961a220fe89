"""The whole recipe, with other programs in place of its steps: their order, and the end of the recording."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training.ear import recipe

STEPS = """
import os, pathlib, sys, time
folder, name, *rest = sys.argv[1:]
with (pathlib.Path(folder) / "steps").open("a") as steps:
    steps.write(name + " " + " ".join(map(os.path.basename, rest[:2])) + "\\n")
if name == "record" and rest[1].endswith("shards"):
    (pathlib.Path(folder) / "recording").write_text(str(os.getpid()))
    time.sleep(60)
if name == "train":
    while not (pathlib.Path(folder) / "recording").exists():
        time.sleep(0.01)
    sys.exit("--fail" in rest[-1])
"""


@pytest.fixture
def ear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def module(name: str, *arguments: object) -> list[str]:
        return [sys.executable, "-c", STEPS, str(tmp_path), name, *map(str, arguments)]

    monkeypatch.setattr(recipe, "module", module)
    return tmp_path


def alive(ear: Path) -> bool:
    return Path("/proc", (ear / "recording").read_text()).exists()


def test_every_step_follows(ear: Path) -> None:
    recipe.main([str(ear), "--jobs", "1"])
    steps = [line.split() for line in (ear / "steps").read_text().splitlines()]
    # Training and its recording begin together.
    assert sorted(step[0] for step in steps[2:4]) == ["record", "train"]
    others = [step for step in steps if step[0] != "train" and step[-1] != "shards"]
    assert [step[0] for step in others] == ["record", "record", "greedy", "greedy", "export"]
    assert [step[-1] for step in others[:2]] == ["held_out", "seen"]
    assert not alive(ear)


def test_a_training_that_fails_ends_the_recording(ear: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        recipe.main([str(ear), "--jobs", "1", "--sizes=--fail"])
    assert "export" not in (ear / "steps").read_text()
    assert not alive(ear)
