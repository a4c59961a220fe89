"""The server as a unit of systemd, in the words of systemd.unit(5), systemd.service(5) and systemd.exec(5)."""

from __future__ import annotations

import os
from pathlib import Path

from app.cli.command import CommandError
from app.cli.service_program import MARK, NAME, OPEN_FILES, ServerProgram, call

_UNIT = f"{NAME}.service"
# This folder exists where systemd runs the system: sd_booted(3).
_BOOTED = Path("/run/systemd/system")
_SYSTEM_UNITS = Path("/etc/systemd/system")
# Folders that ProtectHome hides from the unit.
_HIDDEN = ("/home", "/root", "/run/user")
# Beside this file: the unit, and what the system's has besides. Not there: MemoryDenyWriteExecute (CUDA and MLX
# compile at run time), PrivateDevices, ProtectClock (both hide GPUs).
_TEMPLATE, _SYSTEM_TEMPLATE = "systemd.service", "systemd_system.service"


class Systemd:
    """The systemd of the machine, or of this user."""

    def __init__(self, user: bool) -> None:
        self._user = user
        given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
        own = (given if given.is_absolute() else Path.home() / ".config") / "systemd" / "user"
        self.path = (own if user else _SYSTEM_UNITS) / _UNIT
        self._systemctl = ["systemctl", "--user"] if user else ["systemctl"]

    def definition(self, program: ServerProgram) -> bytes:
        """Return the unit."""
        more = "" if self._user else _read(_SYSTEM_TEMPLATE).format(name=NAME)
        if not self._user and program.data_dir is not None:
            more += f"ReadWritePaths={_quoted(program.data_dir)}\n"
        command, *arguments = program.arguments
        unit = _read(_TEMPLATE).format(
            mark=MARK,
            edit=" ".join([*self._systemctl, "edit", NAME]),
            order="" if self._user else "After=network.target\n",
            command=" ".join([_quoted(command), *(_quoted(each).replace("$", "$$") for each in arguments)]),
            stop=program.stop_seconds,
            files=OPEN_FILES,
            more=more,
            target="default.target" if self._user else "multi-user.target",
        )
        return unit.encode()

    def check(self) -> None:
        """Raise CommandError where systemd does not run, or this user may not change its units."""
        if not self._user:
            if not _BOOTED.is_dir():
                raise CommandError(
                    "systemd does not run this machine; `nightingale service install --print` prints the unit"
                )
            if os.geteuid() != 0:
                raise CommandError("only root changes the system's services: call it by sudo, or give --user")
        elif call([*self._systemctl, "show-environment"], must_succeed=False).returncode:
            raise CommandError(
                "no systemd of this user can be reached: log in as this user (not by su or sudo), or leave out --user"
            )

    def check_program(self, program: ServerProgram) -> None:
        """Raise CommandError for a program in a home folder, which the system's service cannot see."""
        for path in () if self._user else program.needed:
            if any(path.is_relative_to(hidden) for hidden in _HIDDEN):
                raise CommandError(
                    f"the system's service cannot see home folders, and needs {path}: install Nightingale and its "
                    "Python elsewhere, such as in /opt, or give --user"
                )

    def start(self, changed: bool) -> str:
        """Start the unit now and with the system; a system's service gets its account first."""
        if not self._user:
            call(["systemd-sysusers", "--inline", f'u {NAME} - "Nightingale" /var/lib/{NAME}'])
        call([*self._systemctl, "daemon-reload"])
        call([*self._systemctl, "enable", _UNIT])
        call([*self._systemctl, "restart" if changed else "start", _UNIT])
        return f"journalctl {'--user ' if self._user else ''}-u {NAME} -f"

    def stop(self) -> None:
        """Stop the unit, and start it no more."""
        call([*self._systemctl, "disable", "--now", _UNIT])

    def forget(self) -> None:
        """Make systemd read its units again."""
        call([*self._systemctl, "daemon-reload"])
        call([*self._systemctl, "reset-failed", _UNIT], must_succeed=False)

    def state(self) -> tuple[bool, str]:
        """Return whether the unit is active, and its states, such as "active (running)"."""
        found = call([*self._systemctl, "show", "-p", "ActiveState", "-p", "SubState", _UNIT], must_succeed=False)
        if found.returncode:
            return False, "state unknown, as systemd cannot be reached"
        values = dict(line.partition("=")[::2] for line in found.stdout.splitlines())
        active = values.get("ActiveState", "unknown")
        return active == "active", f"{active} ({values.get('SubState', 'unknown')})"


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _quoted(path: Path | str) -> str:
    """Return a path as one word of a directive."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
