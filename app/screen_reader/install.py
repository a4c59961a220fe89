"""Installation of the module for one user of speech-dispatcher: a program and a configuration file.

The daemon finds modules in the user's folder by itself, unless its configuration names modules. Then ours is named.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from app.cli.command import DEFAULT_URL, CommandError

NAME = "nightingale"
_PROGRAM = f"sd_{NAME}"
_SYSTEM = Path("/etc/speech-dispatcher/speechd.conf")
_MODULE_LINE = f'AddModule "{NAME}" "{_PROGRAM}" "{NAME}.conf"'
_DEFAULT_LINE = f"DefaultModule {NAME}"
_NOTE = "# Added by: nightingale speech-dispatcher --install"
_HEAD = """\
# Nightingale's module for speech-dispatcher. Run `killall -u $USER speech-dispatcher` after a change.
# Address of the server, the file that holds its API key if it needs one, and the usual voice.
"""


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """Options of the module, from its configuration file."""

    url: str = DEFAULT_URL
    key_file: str | None = None
    voice: str | None = None


_KEYS = {"Url": "url", "KeyFile": "key_file", "DefaultVoice": "voice"}


def read_options(path: Path) -> ModuleOptions:
    """Return the options in a file; defaults where there is none. Raises CommandError and OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ModuleOptions()
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8") from None
    result = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, _, value = line.strip().partition(" ")
        if key not in _KEYS:
            raise CommandError(f"{path}, line {number}: '{key}' is not an option; accepted are: {', '.join(_KEYS)}")
        result[_KEYS[key]] = value.strip().strip('"')
    return ModuleOptions(**result)


def install(options: ModuleOptions, *, default: bool) -> list[str]:
    """Write the files of the current user; return a line about each. Nothing of others is changed. Raises OSError.

    Args:
        options: options to write; those that are the defaults are left as they stand in the file.
        default: make it the daemon's usual module.
    """
    # The daemon goes through the folder of data, which has to exist, to the one beside it.
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    data.mkdir(parents=True, exist_ok=True)
    program = data.resolve().parent / "libexec" / "speech-dispatcher-modules" / _PROGRAM
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "speech-dispatcher"
    command = shlex.join([sys.executable, "-P", "-m", "app", "speech-dispatcher"])
    script = f'#!/bin/sh\n{_NOTE}\nexec {command} "$@"\n'
    said = [_write(program, script, 0o755)]
    file = folder / "modules" / f"{NAME}.conf"
    said.append(_write(file, _with_options(_text(file) or _HEAD, options)))
    said += _name_module(folder / "speechd.conf", default)
    return said


def _with_options(text: str, options: ModuleOptions) -> str:
    for key, field in _KEYS.items():
        value = getattr(options, field)
        standing = re.search(rf"^{key}\b.*$", text, re.MULTILINE)
        if standing is None:
            text += f'{key} "{value}"\n' if value is not None else ""
        elif value != getattr(ModuleOptions(), field):
            text = text[: standing.start()] + f'{key} "{value}"' + text[standing.end() :]
    return text


def _name_module(path: Path, default: bool) -> list[str]:
    """Add the lines that the daemon's configuration needs, to the user's copy of it."""
    own = _text(path)
    text = own if own is not None else _text(_SYSTEM) or ""
    wanted = []
    if _active(text, "AddModule") and not _active(text, rf'AddModule\s+"?{NAME}"?'):
        wanted.append(_MODULE_LINE)
    if default and not re.fullmatch(rf'.*"?{NAME}"?', (_active(text, "DefaultModule") or [""])[-1], re.IGNORECASE):
        wanted.append(_DEFAULT_LINE)
    if not wanted:
        return []
    joint = "" if not text or text.endswith("\n") else "\n"
    return [_write(path, f"{text}{joint}{_NOTE}\n" + "\n".join(wanted) + "\n")]


def _active(text: str, option: str) -> list[str]:
    """Return the lines of an option that are not comments."""
    return re.findall(rf"^[ \t]*{option}\b.*$", text, re.MULTILINE | re.IGNORECASE)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8; it is left as it is") from None


def _write(path: Path, text: str, mode: int = 0o644) -> str:
    """Write a file as a whole, unless it holds the text already; return a line about it."""
    if _text(path) == text:
        return f"{path}: unchanged"
    path = path.resolve()  # a link of the user's stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.chmod(mode)
    partial.replace(path)
    return f"{path}: written"
