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

_COMMON = """\
# {mark}, which replaces it. Change it by: {edit}
[Unit]
Description=Nightingale, speech and translation
{order}
[Service]
Type=exec
ExecStart={command}
EnvironmentFile=-%E/nightingale/environment
Restart=on-failure
RestartSec=5
# Wrong settings: the next start would fail as this one did.
RestartPreventExitStatus=2
# The processes that decode recordings finish with the streams.
KillMode=mixed
TimeoutStopSec={stop}
LimitNOFILE={files}
NoNewPrivileges=true
{more}
[Install]
WantedBy={target}
"""
# Not here: MemoryDenyWriteExecute (CUDA and MLX compile at run time), PrivateDevices, ProtectClock (both hide GPUs).
_SYSTEM = """\
User={name}
Environment=XDG_DATA_HOME=%S XDG_CACHE_HOME=%C
StateDirectory={name}
StateDirectoryMode=0750
CacheDirectory={name}
CacheDirectoryMode=0700
UMask=0077
CapabilityBoundingSet=
LockPersonality=true
PrivateTmp=true
ProtectControlGroups=true
ProtectHome=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
ProtectSystem=strict
RemoveIPC=true
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
"""


class Systemd:
    """The systemd of the machine, or of this user."""

    def __init__(self, user: bool) -> None:
        self._user = user
        self.path = (_user_units() if user else _SYSTEM_UNITS) / _UNIT
        self._systemctl = ["systemctl", "--user"] if user else ["systemctl"]

    def definition(self, program: ServerProgram) -> bytes:
        """Return the unit."""
        more = "" if self._user else _SYSTEM.format(name=NAME)
        if not self._user and program.data_dir is not None:
            more += f"ReadWritePaths={_quoted(program.data_dir)}\n"
        command, *arguments = program.arguments
        unit = _COMMON.format(
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


def _user_units() -> Path:
    """Return the folder of this user's units."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".config") / "systemd" / "user"


def _quoted(path: Path | str) -> str:
    """Return a path as one word of a directive."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
