"""The command line that a service manager runs, and the programs that `nightingale service` asks."""

from __future__ import annotations

import math
import subprocess
import sys
import sysconfig
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import app
from app.cli.command import USAGE_ERROR, CommandError
from app.config import Settings, default_data_dir, load_settings

# A definition without this line is somebody else's.
MARK = "Written by nightingale service install"
NAME = "nightingale"
OPEN_FILES = 65_536
# Beyond `drain_seconds`, in which a server that was told to end has ended.
_STOP_SECONDS = 10
# A manager waits for the end of a service that stops.
_CALL_SECONDS = 3_700


@dataclass(frozen=True)
class ServerProgram:
    """The installed command with a settings file, whose values alone count: a service has an environment of its own."""

    command: Path
    config: Path | None
    settings: Settings

    @classmethod
    def of_this_installation(cls, config: Path | None) -> ServerProgram:
        """Return the command beside this interpreter. Raises CommandError where it is missing, and SettingsError."""
        command = Path(sysconfig.get_path("scripts"), NAME)
        if not command.is_file():
            raise CommandError(f"{command} is missing: install the package `nightingale` with this Python")
        config = None if config is None else config.absolute()
        for path in (command, *([] if config is None else [config])):
            if any(unicodedata.category(character) in ("Cc", "Cs") for character in str(path)):
                raise CommandError(
                    f"the path {str(path)!r} has control characters or is not UTF-8, which no service can have",
                    USAGE_ERROR,
                )
        return cls(command, config, load_settings(config, {}))

    @property
    def arguments(self) -> list[str]:
        """Return the command line."""
        return [str(self.command), "serve", *([] if self.config is None else ["--config", str(self.config)])]

    @property
    def stop_seconds(self) -> int:
        """Return the seconds after which a server that was told to end may be killed."""
        return math.ceil(self.settings.drain_seconds) + _STOP_SECONDS

    @property
    def data_dir(self) -> Path | None:
        """Return the data directory that the settings file names, if it does."""
        chosen = self.settings.data_dir
        return None if chosen == default_data_dir({}) else chosen.absolute()

    @property
    def needed(self) -> list[Path]:
        """Return the real places of everything that the service must read."""
        code = [self.command, Path(sys.executable), Path(sys.base_prefix), Path(app.__file__)]
        chosen = [path for path in (self.config, self.data_dir, self.settings.keys_file) if path is not None]
        return [path.resolve() for path in (*code, *chosen)]


def call(command: Sequence[str], *, must_succeed: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program of a service manager. Raises CommandError with its last words where it fails or is missing."""
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CALL_SECONDS, check=False
        )
    except FileNotFoundError:
        raise CommandError(f"'{command[0]}' is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise CommandError(f"`{' '.join(command)}` did not end within {_CALL_SECONDS} s") from None
    if must_succeed and done.returncode:
        raise CommandError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip() or done.returncode}")
    return done
