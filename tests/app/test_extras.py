"""Extras: what is listed, what is installed and from where, and what messages say."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from app import extras
from app.errors import ServiceError
from app.main import main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXTS = (
    "app/**/*",
    "models/**/*.py",
    "models/**/*.md",
    "docs/**/*",
    "*.md",
    "Makefile",
    "Dockerfile*",
    "configs/*.toml",
)


def test_every_extra_is_explained() -> None:
    assert set(extras.EXTRAS) == set(PROJECT["optional-dependencies"])


def test_no_text_has_pip_look_for_our_name() -> None:
    """An index has a stranger's package of that name; `-e .` and paths are ours."""
    asked = re.compile(r"(?:pip3?|uv)[\w ]* install\b[^\n`]*?[ '\"]nightingale\b")
    files = [
        path
        for pattern in TEXTS
        for path in ROOT.glob(pattern)
        if path.suffix in ("", ".py", ".md", ".js", ".html", ".toml", ".dev")
    ]
    assert len(files) > 100
    for path in files:
        if path.is_file():
            assert not asked.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("extra", [name for name in extras.EXTRAS if name != "cuda"])
def test_what_an_extra_needs_is_what_the_project_says(extra: str) -> None:
    declared = {re.match(r"[\w-]+", text).group() for text in PROJECT["optional-dependencies"][extra]}
    assert {requirement.name for requirement in extras.requirements(extra)} == declared
    assert all(requirement.marker is None for requirement in extras.requirements(extra))


def test_a_stranger_s_package_of_our_name_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nightingale-2025.2.6.2.dist-info"
    folder.mkdir()
    told = "Metadata-Version: 2.1\nName: nightingale\nVersion: 2025.2.6.2\nProvides-Extra: ja\n"
    (folder / "METADATA").write_text(told + 'Requires-Dist: plotly; extra == "ja"\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "plotly" not in {requirement.name for requirement in extras.requirements("ja")}
    assert extras.requirements("ja")


def test_a_copy_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras.metadata, "distributions", lambda **_: [])
    with pytest.raises(ServiceError, match="make setup"):
        extras.requirements("ja")


def test_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extras", "list"]) == 0
    rows = dict(re.findall(r"^(\w+) +(installed|absent) ", capsys.readouterr().out, re.MULTILINE))
    assert set(rows) == set(extras.EXTRAS)
    assert rows["otel"] == "installed"  # the development tools bring it


def test_an_extra_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["extras", "install", "wings"])
    assert "'play'" in capsys.readouterr().err


@pytest.mark.nightly  # it asks the package index
def test_an_install_for_real(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setattr(extras, "LOCKS", tmp_path / "none")
    monkeypatch.setattr(extras, "is_installed", lambda extra: False)
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "here"))
    assert extras.install_extra(Namespace(extra="play"), None) == 0
    assert (tmp_path / "here" / "sounddevice.py").is_file()
    printed = capfd.readouterr().out
    assert "the extra 'play' is installed" in printed
    assert "nightingale" not in printed.lower()


@pytest.mark.parametrize(("status", "says"), [(0, "the extra 'play' is installed"), (3, "")])
def test_what_is_locked_is_installed_with_its_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, says: str
) -> None:
    (tmp_path / "extra-play.txt").write_text("sounddevice==0.5.3 --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setattr(extras, "LOCKS", tmp_path)
    monkeypatch.setattr(extras, "is_installed", lambda extra: False)
    commands: list[list[str]] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(extras.subprocess, "run", run)
    assert extras.install_extra(Namespace(extra="play"), None) == status
    assert capsys.readouterr().out.startswith(says)
    assert commands[0][-3:] == ["--require-hashes", "-r", str(tmp_path / "extra-play.txt")]


def test_without_pip_the_line_that_works_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(extras, "LOCKS", tmp_path)
    monkeypatch.setattr(extras, "is_installed", lambda extra: False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ServiceError) as caught:
        extras.install_extra(Namespace(extra="play"), None)
    assert f"uv pip install --python {sys.executable} 'sounddevice" in caught.value.message
