"""The wheel's contents, the locks, the licenses and the Makefile."""

from __future__ import annotations

import os
import re
import runpy
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import app
from tests.processes import ROOT, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
LOCKS = ["runtime.txt", "dev.txt", "cluster.txt", *(f"extra-{name}.txt" for name in EXTRAS)]
MODEL_BYTES = {"ear": 14_700_000, "house": 12_000_000}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel that WHEEL_UNDER_TEST names, or one that is built here."""
    if name := os.environ.get("WHEEL_UNDER_TEST"):
        path = Path(name)
    else:
        folder = tmp_path_factory.mktemp("wheel")
        done = run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT)
        assert done.returncode == 0, done.stderr
        (path,) = folder.glob("*.whl")
    assert path.name == f"nightingale-{app.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_carries_the_code_and_the_house_model(wheel):
    names = set(wheel.namelist())
    for package in ("app", "models"):
        sources = {str(path.relative_to(ROOT)) for end in ("py", "tsv") for path in (ROOT / package).rglob(f"*.{end}")}
        assert sources <= names
    for folder in ("models/house", "models/ear", "models/phrasebook", "models/native/src", "app/server/pages/static"):
        files = {f"{folder}/{path.name}" for path in (ROOT / folder).iterdir() if path.is_file()}
        assert len(files) > 2
        assert files <= names
    assert "app/engine/catalog.toml" in names


def test_wheel_carries_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"app", "models", f"nightingale-{app.__version__}.dist-info"}
    licenses = f"nightingale-{app.__version__}.dist-info/licenses"
    assert {f"{licenses}/LICENSE", f"{licenses}/NOTICE"} <= set(wheel.namelist())
    assert not [name for name in wheel.namelist() if name.endswith((".so", ".pyc", ".pth", ".pt"))]


def test_wheel_declares_command_and_is_not_for_upload(wheel):
    folder = f"nightingale-{app.__version__}.dist-info"
    assert "nightingale = app.main:main" in wheel.read(f"{folder}/entry_points.txt").decode()
    metadata = wheel.read(f"{folder}/METADATA").decode()
    assert "Private :: Do Not Upload" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0" in metadata


@pytest.mark.parametrize("name", ["ear", "house"])
def test_models_of_the_wheel_stay_small(name):
    assert sum(path.stat().st_size for path in (ROOT / "models" / name).iterdir()) <= MODEL_BYTES[name]


@pytest.mark.parametrize("name", LOCKS)
def test_lock_is_hashed_and_names_no_package_source(name):
    text = (ROOT / "configs" / "lock" / name).read_text()
    assert "://" not in text
    assert "index-url" not in text
    requirements = re.split(r"\n(?=\S)", text.strip())
    for requirement in requirements:
        assert re.match(r"[\w.-]+==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "configs" / "lock" / name).read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def normal(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-").replace(".", "-")


def test_every_dependency_is_locked():
    runtime = {normal(name) for name in locked("runtime.txt")}
    assert {normal(requirement) for requirement in PROJECT["project"]["dependencies"]} <= runtime
    groups = PROJECT["dependency-groups"]
    tools = {normal(item) for group in groups.values() for item in group if isinstance(item, str)}
    assert tools <= {normal(name) for name in locked("dev.txt")}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_is_locked(extra):
    names = {normal(name) for name in locked(f"extra-{extra}.txt")}
    assert {normal(requirement) for requirement in EXTRAS[extra]} <= names


def test_locks_agree():
    runtime, dev = locked("runtime.txt"), locked("dev.txt")
    assert {name: dev.get(name) for name in runtime} == runtime
    for name in LOCKS[2:]:
        other = locked(name)
        assert {each: dev[each] for each in other if each in dev} == {
            each: version for each, version in other.items() if each in dev
        }


def test_notice_names_every_runtime_package_and_its_license():
    table = runpy.run_path(str(ROOT / ".ci" / "licenses.py"))["table"]()
    assert [line for line in table if "UNKNOWN" in line] == []
    assert "\n".join(table) in (ROOT / "NOTICE").read_text(), "NOTICE differs from: python .ci/licenses.py"


def test_notice_names_every_extra_and_every_model():
    text = (ROOT / "NOTICE").read_text()
    assert [name for name in EXTRAS if not re.search(rf"^  {name} ", text, re.MULTILINE)] == []
    models = tomllib.loads((ROOT / "app" / "engine" / "catalog.toml").read_text())
    bundled = {entry.get("bundled") for entry in models.values()}
    assert [name for name in models if f"models/{name}" not in text and name in bundled] == []
    assert [name for name in models if name not in text] == []


def imported(folder: str) -> set[str]:
    """Top-level packages that the modules of a folder import, wherever in a module."""
    statement = re.compile(r"^\s*(?:import|from) ([a-zA-Z]\w*)", re.MULTILINE)
    return {name for path in (ROOT / folder).rglob("*.py") for name in statement.findall(path.read_text())}


def test_the_tools_of_tests_and_load_are_no_runtime_dependencies():
    names = {normal(requirement) for requirement in PROJECT["project"]["dependencies"]}
    tools = {normal(item) for item in (*PROJECT["dependency-groups"]["loadtest"], "pytest", "hypothesis")}
    assert not names & tools
    assert not {name.replace("-", "_") for name in tools} & (imported("app") | imported("models"))


def test_make_lists_every_target():
    listed = run("make", cwd=ROOT).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE).group(1).split()
    assert {"setup", "run", "test", "lint", "types", "parity", "bench", "load", "check", "clean"} <= set(phony)
    assert set(re.findall(r"^  ([\w-]+) ", listed, re.MULTILINE)) == set(phony)


# Without ensurepip, as Debian ships it; and too old.
BARE = f'case "$*" in *--without-pip*) ;; "-m venv"*|"-m pip"*) exit 1;; esac\nexec {sys.executable} "$@"'


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(BARE, "apt-get install python3-venv", id="no ensurepip"),
        pytest.param("exit 1", "older than Python 3.11", id="too old"),
    ],
)
def test_make_says_what_is_wrong_with_a_python(tmp_path, script, message):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    done = run("make", "setup", f"PYTHON={python}", f"VENV={tmp_path}/venv", cwd=ROOT)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Installing" not in done.stdout
    assert (tmp_path / "venv").exists() == (script == BARE)
