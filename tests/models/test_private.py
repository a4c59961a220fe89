"""Code compiled at run time comes from folders that only this user can write; others' files are never loaded."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from models.backend import on_cpu
from models.private import FolderError, cache_root, home, installed_folder, private_folder

ROOT = Path(__file__).parents[2]
LINUX = sys.platform == "linux"
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_it_is_made_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert made == (tmp_path / "a" / "b").resolve()
    assert (mode(made), mode(made.parent)) == (0o700, 0o700)
    assert private_folder(made) == made


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    assert mode(private_folder(tmp_path / "own")) == 0o700


@pytest.mark.parametrize("bits", [0o777, 0o757, 0o1777])
def test_a_folder_that_others_could_write_is_refused(tmp_path: Path, bits: int) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(bits)
    with pytest.raises(FolderError, match="others can write it"):
        private_folder(tmp_path / "own")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_folder_that_others_could_exchange_is_refused(tmp_path: Path, depth: int) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    folder = open_to_all.joinpath(*"abc"[:depth])
    private_folder(folder)
    open_to_all.chmod(0o777)
    with pytest.raises(FolderError, match=f"others can write {open_to_all.resolve()}"):
        private_folder(folder)
    open_to_all.chmod(0o1777)
    assert private_folder(folder) == folder.resolve()


def test_a_link_is_judged_by_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    for folder in (tmp_path / "link", tmp_path / "link" / "below"):
        with pytest.raises(FolderError, match="others can write"):
            private_folder(folder)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FolderError):
        private_folder(tmp_path / "loop")


def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    private_folder(tmp_path / "own")
    with pytest.raises(FolderError, match="belongs to another user") as refused:
        private_folder(tmp_path / "own", os.geteuid() + 1)
    assert "XDG_CACHE_HOME" in str(refused.value) and "\n" not in str(refused.value)


@as_root
def test_a_file_of_another_user_in_it_is_refused(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "own")
    (folder / "deep").mkdir()
    (folder / "deep" / "kernel.so").write_bytes(b"")
    os.chown(folder / "deep" / "kernel.so", NOBODY, NOBODY)
    with pytest.raises(FolderError, match=r"kernel\.so belongs to another user"):
        private_folder(folder)


@as_root
def test_a_group_of_others_may_not_write(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o775)
    assert private_folder(tmp_path / "shared" / "own")  # root's own group
    os.chown(tmp_path / "shared", 0, NOBODY)
    with pytest.raises(FolderError, match="others can write"):
        private_folder(tmp_path / "shared" / "own")


def test_code_of_the_installation_may_belong_to_its_owner_and_stay_unwritable(tmp_path: Path) -> None:
    folder = tmp_path / "share"
    assert installed_folder(folder) is None
    folder.mkdir(mode=0o755)
    (folder / "kernel.so").touch(0o644)
    folder.chmod(0o555)
    assert installed_folder(folder) == folder.resolve()


@as_root
@pytest.mark.parametrize("part", [".", "kernel.so", ".."])
def test_code_of_the_installation_that_others_can_change_is_refused(tmp_path: Path, part: str) -> None:
    folder = tmp_path / "prefix" / "share"
    folder.mkdir(parents=True)
    (folder / "kernel.so").touch(0o644)
    path = (folder / part).resolve()
    mode_before = mode(path)
    path.chmod(0o777)
    with pytest.raises(FolderError, match="is not used: others can write"):
        installed_folder(folder)
    path.chmod(mode_before)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(FolderError, match=r"is not used: .* belongs to another user"):
        installed_folder(folder)


@as_root
def test_code_of_the_installation_behind_links_that_lead_to_each_other_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(FolderError, match="is not used"):
        installed_folder(tmp_path / "a")


def test_relative_paths_of_the_environment_are_ignored() -> None:
    assert cache_root({"XDG_CACHE_HOME": "cache", "HOME": "/home/a"}) == Path("/home/a/.cache")
    assert cache_root({"XDG_CACHE_HOME": "/cache", "HOME": "/home/a"}) == Path("/cache")
    assert home({"HOME": "."}) == home({})  # the passwd entry's


# Everything is imported before the user changes: the interpreter's own folder may be closed to others.
AS_ANOTHER = """
import os, sys
import app.main
user = int(sys.argv[1])
os.setgroups([]); os.setgid(user); os.setuid(user)
sys.exit(app.main.main(["serve", "--port", "0"]))
"""


def run(program: str, *arguments: object, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@as_root
@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ["HOME", "NIGHTINGALE_DATA_DIR"]),
        ({"NIGHTINGALE_DATA_DIR": "/tmp/models"}, ["HOME", "XDG_CACHE_HOME"]),  # noqa: S108
        ({"HOME": "/"}, ["Permission denied", "XDG_CACHE_HOME"]),
        ({"HOME": "/nonexistent"}, ["Permission denied", "XDG_CACHE_HOME"]),
        ({"HOME": "/root", "XDG_CACHE_HOME": "relative"}, ["Permission denied", "XDG_CACHE_HOME"]),
        ({"HOME": "/proc"}, ["XDG_CACHE_HOME"]),
    ],
)
def test_a_user_without_a_place_is_told_what_to_set(environment: dict[str, str], names: list[str]) -> None:
    """User 12345 has no passwd entry and owns nothing."""
    done = run(AS_ANOTHER, 12345, environment={"PATH": os.environ["PATH"], **environment})
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert all(name in done.stderr for name in names), done.stderr


TWO_USERS = """
import os, sys
from models.native import process
users = [int(user) for user in sys.argv[1:]]
for user in users:
    if not os.fork():
        os.setgroups([]); os.setgid(user); os.setuid(user)
        os.environ["XDG_CACHE_HOME"] = f"{os.environ['SHARED']}/{user}"
        os._exit(0 if process.cache_folder().stat().st_uid == user else 3)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0, user
"""


@as_root
def test_two_users_have_a_folder_each() -> None:
    shared = Path("/tmp") / f"nightingale-shared-{os.getpid()}"  # noqa: S108 - below pytest's folder only root may look
    shared.mkdir()
    try:
        shared.chmod(0o1777)
        done = run(TWO_USERS, 0, NOBODY, 0, 12345, environment=os.environ | {"SHARED": str(shared)})
        assert done.returncode == 0, done.stderr
        assert {(shared / name).stat().st_uid for name in ("0", "12345", str(NOBODY))} == {0, NOBODY, 12345}
    finally:
        subprocess.run(["rm", "-rf", str(shared)], check=True)


FUSED = """
import os, signal
from models.backend import mx
fused = mx.compile(lambda x: mx.sin(x) * 2 + 1, shapeless=True)
with mx.stream(mx.cpu):
    mx.eval(fused(mx.ones((8, 8))))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not (LINUX and on_cpu()), reason="concerns MLX's CPU back end on Linux")
def test_nothing_is_compiled_into_the_temporary_directory(tmp_path: Path) -> None:
    """MLX would load any object there that has the name of one of its kernels, whoever put it there."""
    done = run(FUSED, environment=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list(tmp_path.iterdir()) == []
