"""Build of the native module: once, whole or not at all, and never the end of the process that wants it."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from models.backend import on_cpu
from models.native import build, kernels
from models.native import process as native_process
from models.native.build import CompilationUnit
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not on_cpu(), reason="no native kernels on this device")

# A process that builds a module of one function with the compiler that is first on PATH.
BUILDER = """
import sys
from pathlib import Path
from models.native import build
source, seconds = Path(sys.argv[1]), float(sys.argv[2])
build.SOURCES, build._TRIAL = source.parent, "0"
build._units = lambda: [build.CompilationUnit(source, "small", ())]
try:
    print(build.library(seconds))
except OSError as error:
    print("failed:", error)
"""


@dataclass
class Small:
    """A build of one function in a cache folder of its own, and a compiler that counts its calls."""

    cache: Path
    source: Path
    compiler: Path
    calls: Path
    works: str  # script of a compiler that works

    def compiler_does(self, script: str) -> None:
        """Make the compiler run a shell script after it counted a call of it for a source file."""
        self.compiler.write_text(f'#!/bin/sh\ncase " $* " in *" -c "*) echo $$ >> "{self.calls}";; esac\n{script}\n')
        self.compiler.chmod(0o755)

    def count(self) -> int:
        """Return how often a source file was compiled."""
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def left(self) -> list[str]:
        """Return the kinds of files in the cache folder."""
        return sorted(path.suffix or path.name for path in (self.cache / "nightingale").glob("native*"))

    def start(self, seconds: float = 60) -> subprocess.Popen[str]:
        """Start a process that builds."""
        command = [sys.executable, "-c", BUILDER, str(self.source), str(seconds)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Small:
    real = shutil.which("g++")
    assert real is not None
    folder, source = tmp_path / "bin", tmp_path / "src" / "small.cpp"
    folder.mkdir()
    source.parent.mkdir()
    source.write_text("int small() { return 7; }\n")
    made = Small(tmp_path / "cache", source, folder / "g++", tmp_path / "calls", f'exec "{real}" "$@"')
    made.compiler_does(made.works)
    monkeypatch.setenv("XDG_CACHE_HOME", str(made.cache))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(build, "SOURCES", source.parent)
    monkeypatch.setattr(build, "_TRIAL", "0")
    monkeypatch.setattr(build, "_units", lambda: [CompilationUnit(source, "small", ())])
    return made


def test_built_once(small: Small) -> None:
    path = build.library()
    assert (build.library(), small.count(), small.left()) == (path, 1, [".lock", ".so"])
    assert path.stat().st_mode & 0o022 == 0


def test_use_needs_no_compiler(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build.library()
    monkeypatch.setenv("PATH", "/nowhere")
    missing_headers(monkeypatch)
    assert build.library() == path
    path.unlink()
    with pytest.raises(OSError, match="no C\\+\\+ compiler"):
        build.library()


@pytest.fixture
def installed(small: Small, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The path of a module that was built, and the folder of the installation, where it lies now."""
    built, folder = build.library(), tmp_path / "prefix" / "share" / "nightingale"
    folder.parent.mkdir(parents=True)
    shutil.move(built.parent, folder)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    native_process._installed.cache_clear()
    yield built, folder
    native_process._installed.cache_clear()


def test_module_of_the_installation_is_used(small: Small, installed: tuple[Path, Path]) -> None:
    built, folder = installed
    assert (build.library(), small.count(), small.left()) == (folder / built.name, 1, [])


def test_damaged_module_of_the_installation_is_built_in_the_cache(installed: tuple[Path, Path]) -> None:
    built, folder = installed
    (folder / built.name).write_bytes(b"?")
    assert build.library() == built
    assert (folder / built.name).read_bytes() == b"?"


def test_module_that_others_can_change_is_not_used(
    installed: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    built, folder = installed
    folder.chmod(0o777)
    assert build.library() == built
    assert f"Compiled code of {folder} is not used: others can write" in caplog.text


@pytest.mark.parametrize("kept", [0, 1, 40, 5000, None])
def test_damaged_file_is_built_again(small: Small, kept: int | None) -> None:
    path = build.library()
    content = path.read_bytes()
    path.write_bytes(content[:kept] if kept is not None else content[:2000] + b"?" + content[2001:])
    assert (build.library(), path.read_bytes(), small.count()) == (path, content, 2)


def test_what_the_module_depends_on_is_in_its_name(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [build.library()]
    real_version, real_variable = build.importlib.metadata.version, sysconfig.get_config_var
    for package in ("mlx", "nanobind"):
        monkeypatch.setattr(
            build.importlib.metadata, "version", lambda name, of=package: "9" if name == of else real_version(name)
        )
        found.append(build.library())
    monkeypatch.setattr(build.importlib.metadata, "version", real_version)
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda name: ".x.so" if name == "EXT_SUFFIX" else real_variable(name)
    )
    found.append(build.library())
    monkeypatch.setattr(sysconfig, "get_config_var", real_variable)
    small.source.write_text("int small() { return 8; }\n")
    found.append(build.library())
    assert len(set(found)) == len(found) == small.count()


def test_compiler_that_fails(small: Small) -> None:
    small.compiler_does('echo "In file a.h" >&2; echo "a.h:1: error: no such thing" >&2; echo done >&2; exit 1')
    with pytest.raises(OSError, match="no such thing"):
        build.library()
    assert small.left() == [".failed", ".lock"]
    with pytest.raises(OSError, match="no such thing"):
        build.library()
    assert small.count() == 2  # a later start tries again


def alive(process: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_compiler_that_hangs_ends_with_its_children(small: Small, tmp_path: Path) -> None:
    small.compiler_does(f'sleep 1000 & echo $! > "{tmp_path / "child"}"; wait')
    with pytest.raises(OSError, match="took too long"):
        build.library(0.5)
    assert small.left() == [".failed", ".lock"]
    wait_until(lambda: not alive(int((tmp_path / "child").read_text())))


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_processes_that_start_at_once_build_once(small: Small, processes: list[subprocess.Popen[str]]) -> None:
    processes += [small.start() for _ in range(3)]
    found = {process.communicate(timeout=100)[0] for process in processes}
    assert len(found) == 1
    assert ".so" in found.pop()
    assert small.count() == 1


def test_processes_that_wait_for_a_failure_do_not_repeat_it(
    small: Small, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    small.compiler_does(f'until [ -e "{gate}" ]; do sleep 0.05; done; echo "error: broken" >&2; exit 1')
    processes.append(small.start())
    wait_until(lambda: small.count() == 1)
    processes.append(small.start())
    # The second has opened the lock's file, which it does only to wait.
    lock = small.cache / "nightingale" / "native.lock"
    descriptors = Path(f"/proc/{processes[1].pid}/fd")
    wait_until(lambda: str(lock) in map(os.path.realpath, descriptors.iterdir()))
    gate.touch()
    assert [process.communicate(timeout=100)[0] for process in processes] == [
        f"failed: {small.compiler} failed: error: broken\n"
    ] * 2
    assert small.count() == 1


def test_builder_that_is_killed_leaves_the_work_to_the_next(
    small: Small, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    small.compiler_does(f'echo $$ > "{tmp_path / "stuck"}"; exec sleep 1000')
    processes.append(small.start())
    wait_until(lambda: (tmp_path / "stuck").exists() and (tmp_path / "stuck").read_text().strip())
    processes[0].kill()
    processes[0].wait()
    os.kill(int((tmp_path / "stuck").read_text()), signal.SIGKILL)
    small.compiler_does(small.works)
    assert build.library().exists()


def test_lock_that_another_process_keeps(
    small: Small, processes: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    small.compiler_does("exec sleep 1000")
    processes.append(small.start())
    wait_until(lambda: small.count() == 1)
    monkeypatch.setattr(build, "TRIAL_SECONDS", 0.2)
    with pytest.raises(OSError, match="another process has not built them"):
        build.library(0.1)
    os.kill(int(small.calls.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "exit status -11"),
        ("raise TypeError('incompatible arguments')", "incompatible arguments"),
        (build._TRIAL, "ImportError: dynamic module does not define"),
    ],
)
def test_module_that_fails_its_trial_is_not_used(
    small: Small, monkeypatch: pytest.MonkeyPatch, trial: str, reason: str
) -> None:
    monkeypatch.setattr(build, "_TRIAL", trial)
    with pytest.raises(OSError, match=reason):
        build.library()
    assert small.left() == [".failed", ".lock"]


def test_old_modules_go_and_used_ones_stay(small: Small) -> None:
    used = build.library()
    folder = used.parent
    old, rest = folder / "native-0123456789abcdef.so", folder / "native-build-killed"
    old.touch()
    rest.mkdir()
    (rest / "a.o").touch()
    long_ago = time.time() - build.KEPT_SECONDS - 60
    for path in (old, rest, used):
        os.utime(path, (long_ago, long_ago))
    build.library()  # a start with the old module makes it young
    small.source.write_text("int small() { return 8; }\n")
    build.library()
    assert not old.exists()
    assert not rest.exists()
    assert used.exists()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def missing_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": "/nowhere"})


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (missing_headers, "/nowhere/Python.h is missing (on Debian and Ubuntu: apt-get install python3-dev)"),
        (lambda patch: patch.setitem(sys.modules, "nanobind", None), "nanobind"),
        (lambda patch: patch.setenv("PATH", "/nowhere"), "apt-get install g++"),
        (lambda patch: patch.setattr(build.platform, "machine", lambda: "vax"), "no kernels for the processor vax"),
    ],
)
def test_one_warning_says_what_it_costs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, spoil: Any, reason: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NATIVE_KERNELS", raising=False)
    spoil(monkeypatch)
    assert kernels.module.__wrapped__() is None
    (warning,) = warnings(caplog)
    assert reason in warning
    assert "takes about four times as long on this CPU" in warning
    assert "python -m models.native.build" in warning


@pytest.mark.parametrize("error", [TypeError("incompatible"), RuntimeError("odd"), ImportError("undefined symbol")])
def test_module_that_cannot_be_loaded_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def load(path: Path) -> None:
        raise error

    monkeypatch.delenv("NATIVE_KERNELS", raising=False)
    monkeypatch.setattr(build, "library", lambda: Path("/nowhere"))
    monkeypatch.setattr(kernels, "load", load)
    assert kernels.module.__wrapped__() is None
    assert [str(error) in warning for warning in warnings(caplog)] == [True]


def test_environment_turns_them_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("NATIVE_KERNELS", "off")
    monkeypatch.setattr(build, "library", lambda: pytest.fail("built"))
    assert kernels.module.__wrapped__() is None
    assert warnings(caplog) == []


def test_strange_value_of_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NATIVE_KERNELS", "of")
    monkeypatch.setattr(kernels, "load", lambda path: "loaded")
    monkeypatch.setattr(build, "library", lambda: Path("/nowhere"))
    assert kernels.module.__wrapped__() == "loaded"
    (warning,) = warnings(caplog)
    assert "'of'" in warning
    assert ", ".join(kernels.CHOICES) in warning


def built_by_command(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "models.native.build"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=os.environ | environment
    )


@pytest.mark.skipif(not kernels.available(), reason="no native kernels on this device")
def test_command_prints_what_is_in_use() -> None:
    done = built_by_command()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Native kernels: {kernels.description()} (")
    assert kernels.description() != "mlx"


def test_command_fails_with_the_reason(tmp_path: Path) -> None:
    done = built_by_command(XDG_CACHE_HOME=str(tmp_path), PATH="/nowhere")
    assert done.returncode == 1
    assert "no C++ compiler" in done.stderr
    assert done.stdout == ""


def test_a_folder_named_mlx_beside_a_script_is_not_mlx(tmp_path: Path) -> None:
    (tmp_path / "mlx").mkdir()
    script = tmp_path / "script.py"
    script.write_text("from models.native import kernels\nprint(kernels.description())\n")
    environment = os.environ | {"PYTHONPATH": str(Path(build.__file__).parents[2])}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == kernels.description()
    assert done.stderr == ""
