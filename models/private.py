"""Folders from which compiled code is loaded: those that only this user can write, and those of the installation."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


class FolderError(OSError):
    """Error for a private folder that is not available. The message is one line: the folder, the cause, the remedy.

    `why` is the cause alone.
    """

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why or message


def home(environ: Mapping[str, str]) -> Path | None:
    """Return this user's home folder: HOME where it is absolute, else the passwd entry's; None without either."""
    given = Path(environ.get("HOME", ""))
    if given.is_absolute():
        return given
    try:
        found = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return None
    return found if found.is_absolute() else None


def cache_root(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of this user's caches: XDG_CACHE_HOME where it is absolute, as its specification says."""
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given
    user = home(environ)
    return None if user is None else user / ".cache"


def private_folder(folder: Path, user: int | None = None) -> Path:
    """Make the absolute path `folder` where it is missing, with mode 0700; return its real path.

    `user` must own it (default: the effective user). Raises FolderError where it cannot be made or written, and where
    another user could put something into it, owns something in it, or could replace it.
    """
    user = os.geteuid() if user is None else user
    try:
        real, trusted = folder.resolve(), _trusted(user)
        for parent in reversed(real.parents):
            if not parent.exists():
                parent.mkdir(mode=0o700, exist_ok=True)
            _check_parent(parent, trusted, user)
        real.mkdir(mode=0o700, exist_ok=True)
        inside = (Path(path, name) for path, folders, files in os.walk(real) for name in (*folders, *files))
        for path in (real, *inside):
            with suppress(FileNotFoundError):  # another process of this user compiles
                if path.lstat().st_uid != user:
                    raise FolderError(f"{path} belongs to another user")
        if _is_shared(real.lstat(), user):
            raise FolderError("others can write it")
        if stat.S_IMODE(real.lstat().st_mode) != 0o700:
            real.chmod(0o700)
        if not os.access(real, os.W_OK | os.X_OK):
            raise FolderError("it cannot be written")
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FolderError(
            f"Compiled code cannot be kept in {folder}: {why}. Set XDG_CACHE_HOME to the absolute path of a folder "
            "that only you can write.",
            why,
        ) from None
    return real


def installed_folder(folder: Path) -> Path | None:
    """Return the real path of `folder`, whose content came with the installation; None where there is no such folder.

    Its owner is the effective user or the administrator. Raises FolderError where another user could put something into
    it, owns something in it, or could replace it.
    """
    user = os.geteuid()
    try:
        real, trusted = folder.resolve(), _trusted(user)
        if not real.is_dir():
            return None
        for path in (*reversed(real.parents), real, *real.iterdir()):
            _check_parent(path, trusted, user)
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FolderError(f"Compiled code of {folder} is not used: {why}.", why) from None
    return real


def _trusted(user: int) -> set[int]:
    """Return the users whose files `user` may load as code."""
    # The owner of the root of the file system is trusted: in a user namespace that is not user 0.
    return {0, user, Path("/").stat().st_uid}


def _check_parent(folder: Path, trusted: set[int], user: int) -> None:
    """Raise FolderError where another user can replace an entry of `folder`."""
    status = folder.stat()
    if status.st_uid not in trusted:
        raise FolderError(f"{folder} belongs to another user")
    # In a sticky folder only its owner and the folder's owner can replace an entry.
    if not status.st_mode & stat.S_ISVTX and _is_shared(status, user):
        raise FolderError(f"others can write {folder}")


def _is_shared(status: os.stat_result, user: int) -> bool:
    """Return whether another user may write: any user, or a group that is not the user's private one."""
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    try:
        entry, group = pwd.getpwuid(user), grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    private = entry.pw_gid == status.st_gid and group.gr_name == entry.pw_name
    return not (private and set(group.gr_mem) <= {entry.pw_name})
