"""The server as a job of launchd. Its keys are those of launchd.plist(5)."""

from __future__ import annotations

import os
import plistlib
import pwd
import time
from pathlib import Path
from typing import Any

from app.cli.command import CommandError
from app.cli.service_program import MARK, NAME, OPEN_FILES, ServerProgram, call

_LABEL = f"{NAME}.server"
# launchd ends a job in the background, and refuses to load it again until then.
_LOAD_SECONDS = 30.0


class Launchd:
    """The launchd of the machine (a daemon), or of this user (an agent)."""

    def __init__(self, user: bool) -> None:
        self._user = user
        # A daemon runs as the person who called sudo: this account has the models.
        self._account = pwd.getpwuid(os.geteuid()) if user else _caller()
        home = Path.home() if user else Path(self._account.pw_dir)
        library = home / "Library" if user else Path("/Library")
        self.path = library / ("LaunchAgents" if user else "LaunchDaemons") / f"{_LABEL}.plist"
        self._log = home / "Library" / "Logs" / f"{NAME}.log"
        self._domain = f"gui/{self._account.pw_uid}" if user else "system"

    def definition(self, program: ServerProgram) -> bytes:
        """Return the property list."""
        files = {"NumberOfFiles": OPEN_FILES}
        job: dict[str, Any] = {
            "Label": _LABEL,
            "ProgramArguments": program.arguments,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": program.stop_seconds,
            # Speech is wanted at once: a background job's processor and disk are throttled.
            "ProcessType": "Interactive",
            "SoftResourceLimits": files,
            "HardResourceLimits": files,
            "StandardOutPath": str(self._log),
            "StandardErrorPath": str(self._log),
        }
        if not self._user:
            job |= {"UserName": self._account.pw_name, "EnvironmentVariables": {"HOME": self._account.pw_dir}}
        comment = f"<!-- {MARK}, which replaces it. -->\n".encode()
        return plistlib.dumps(job, sort_keys=False).replace(b"<plist ", comment + b"<plist ", 1)

    def check(self) -> None:
        """Raise CommandError where this user may not change the jobs."""
        if not self._user and os.geteuid() != 0:
            raise CommandError("only root changes the system's services: call it by sudo, or give --user")
        if not self._user and self._account.pw_uid == 0:
            raise CommandError("the server does not run as root: call this by sudo from the account that shall run it")

    def check_program(self, program: ServerProgram) -> None:
        """Accept every place: a job sees what its user sees."""

    def start(self, changed: bool) -> str:
        """Load the job, which starts it now and with the system."""
        loaded = self.state()[1] != "not loaded"
        if loaded and changed:
            call(["launchctl", "bootout", f"{self._domain}/{_LABEL}"], must_succeed=False)
            loaded = False
        call(["launchctl", "enable", f"{self._domain}/{_LABEL}"])
        if loaded:
            call(["launchctl", "kickstart", f"{self._domain}/{_LABEL}"])
            return f"tail -f {self._log}"
        command, end = ["launchctl", "bootstrap", self._domain, str(self.path)], time.monotonic() + _LOAD_SECONDS
        while call(command, must_succeed=time.monotonic() > end).returncode:
            time.sleep(0.5)
        return f"tail -f {self._log}"

    def stop(self) -> None:
        """Unload the job, which ends it."""
        call(["launchctl", "bootout", f"{self._domain}/{_LABEL}"], must_succeed=False)

    def forget(self) -> None:
        """Do nothing: launchd keeps no list of definitions."""

    def state(self) -> tuple[bool, str]:
        """Return whether the job runs, and its state, such as "running"; "not loaded": launchd does not know it."""
        found = call(["launchctl", "print", f"{self._domain}/{_LABEL}"], must_succeed=False)
        if found.returncode:
            return False, "not loaded"
        states = [line.partition("=")[2].strip() for line in found.stdout.splitlines() if line.startswith("\tstate =")]
        word = states[0] if states else "unknown"
        return word == "running", word


def _caller() -> pwd.struct_passwd:
    """Return the account that called sudo, or this process's."""
    name = os.environ.get("SUDO_USER", "")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return pwd.getpwuid(os.geteuid())
