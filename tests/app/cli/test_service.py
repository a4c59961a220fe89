"""`nightingale service`, with stand-ins for systemctl, systemd-sysusers and launchctl: no test is their machine."""

from __future__ import annotations

import os
import plistlib
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from app import main
from app.cli import launchd, systemd
from app.cli.service_program import ServerProgram

COMMAND = Path(sys.executable).with_name("nightingale")
linux = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux'")

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> {calls}
case "$*" in {fails}) echo "it is broken" >&2; exit 1;; esac
case "$*" in
*show\\ -p*) printf 'ActiveState=%s\\nSubState=%s\\n' {active};;
print*) printf 'gui = {{\\n\\tstate = {job}\\n\\tlast exit code = 0\\n'; exit {absent};;
esac
"""


@dataclass
class Machine:
    """Programs of a service manager that write down how they are called."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def programs(
        self, fails: str = "nothing", active: str = "active running", job: str = "running", absent: int = 0
    ) -> None:
        """Make the programs; `fails` is a pattern of the calls that fail."""
        calls = shlex.quote(str(self.folder / "calls"))
        for name in ("systemctl", "systemd-sysusers", "launchctl"):
            path = self.folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(STAND_IN.format(calls=calls, fails=fails, active=active, job=job, absent=absent))
            path.chmod(0o755)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run the command; return its status and what it printed to standard output, or else to standard error."""
        status = main.main(["service", *arguments])
        printed = self.capsys.readouterr()
        return status, printed.out or printed.err

    def calls(self) -> list[str]:
        """Return the calls since the last question."""
        path = self.folder / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    """A machine that systemd runs, and whose programs lie outside of home folders."""
    made = Machine(tmp_path, capsys)
    made.programs()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(systemd, "_BOOTED", tmp_path)
    monkeypatch.setattr(systemd, "_SYSTEM_UNITS", tmp_path / "system")
    monkeypatch.setattr(systemd, "_HIDDEN", ())
    return made


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    return tmp_path / "system" / "nightingale.service"


def test_install_makes_the_account_and_starts_the_unit(machine, unit):
    said = f"{unit}: installed; the service is started\nIts log: journalctl -u nightingale -f\n"
    assert machine.run("install") == (0, said)
    assert machine.calls() == [
        'systemd-sysusers --inline u nightingale - "Nightingale" /var/lib/nightingale',
        "systemctl daemon-reload",
        "systemctl enable nightingale.service",
        "systemctl restart nightingale.service",
    ]
    assert f'\nExecStart="{COMMAND}" "serve"\n' in unit.read_text()
    assert "\nUser=nightingale\n" in unit.read_text()
    assert unit.stat().st_mode & 0o777 == 0o644
    assert list(unit.parent.iterdir()) == [unit]


def test_a_second_install_does_not_end_the_running_service_and_a_changed_one_does(machine, unit, tmp_path):
    machine.run("install")
    before = unit.stat()
    machine.calls()
    status, said = machine.run("install")
    assert status == 0 and f"{unit}: unchanged" in said
    assert "systemctl start nightingale.service" in machine.calls()
    assert unit.stat().st_mtime_ns == before.st_mtime_ns
    (tmp_path / "settings.toml").write_text("drain_seconds = 99.5\n")
    assert machine.run("install", "--config", str(tmp_path / "settings.toml"))[0] == 0
    assert "systemctl restart nightingale.service" in machine.calls()
    assert "\nTimeoutStopSec=110\n" in unit.read_text()
    assert f'"--config" "{tmp_path}/settings.toml"\n' in unit.read_text()


def test_a_data_directory_of_the_settings_can_be_written(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", "/elsewhere")  # the service does not have this variable
    status, said = machine.run("install", "--print")
    assert status == 0 and "ReadWritePaths" not in said
    (tmp_path / "settings.toml").write_text('data_dir = "/srv/100% my voices"\n')
    status, said = machine.run("install", "--print", "--config", str(tmp_path / "settings.toml"))
    assert status == 0 and '\nReadWritePaths="/srv/100%% my voices"\n' in said
    assert machine.calls() == []


def test_user_service_is_the_users_own(machine, tmp_path):
    assert machine.run("install", "--user")[0] == 0
    path = tmp_path / ".config" / "systemd" / "user" / "nightingale.service"
    assert "\nWantedBy=default.target\n" in path.read_text()
    assert "User=" not in path.read_text()
    assert machine.calls() == [
        "systemctl --user show-environment",
        "systemctl --user daemon-reload",
        "systemctl --user enable nightingale.service",
        "systemctl --user restart nightingale.service",
    ]
    assert machine.run("status", "--user") == (0, f"{path}: installed, active (running)\n")


def test_uninstall_ends_the_service_and_can_be_repeated(machine, unit):
    machine.run("install")
    machine.calls()
    assert machine.run("uninstall")[0] == 0
    assert machine.calls() == [
        "systemctl disable --now nightingale.service",
        "systemctl daemon-reload",
        "systemctl reset-failed nightingale.service",
    ]
    assert not unit.exists()
    assert machine.run("uninstall") == (0, f"{unit}: not installed\n")
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("active", "status", "words"), [("active running", 0, "active (running)"), ("failed failed", 1, "failed (failed)")]
)
def test_status(machine, unit, active, status, words):
    assert machine.run("status") == (1, f"{unit}: not installed\n")
    machine.run("install")
    machine.programs(active=active)
    assert machine.run("status") == (status, f"{unit}: installed, {words}\n")


@pytest.mark.parametrize("action", ["install", "uninstall", "status"])
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_somebody_else_wrote_is_left_alone(machine, unit, action, kind):
    unit.parent.mkdir()
    if kind == "file":
        unit.write_text("[Service]\nExecStart=/bin/true\n")
    elif kind == "link":
        unit.symlink_to("/dev/null")
    else:
        unit.mkdir()
    status, said = machine.run(action)
    assert f"{unit} was not written by `nightingale service install`: move it away first\n" in said
    assert (status, machine.calls()) == (1, [])
    assert unit.read_text().startswith("[Service]") if kind == "file" else unit.is_symlink() or unit.is_dir()


@pytest.mark.parametrize(
    ("arguments", "name", "value", "message"),
    [
        ([], "_BOOTED", Path("/nowhere/at/all"), "systemd does not run this machine"),
        ([], "_HIDDEN", (str(Path(sys.executable).parents[1].resolve()),), "cannot see home folders, and needs"),
        (["--config", "/nowhere/settings.toml"], "_HIDDEN", (), "cannot read settings file /nowhere/settings.toml"),
    ],
)
def test_refusals_come_before_any_change(machine, unit, monkeypatch, arguments, name, value, message):
    monkeypatch.setattr(systemd, name, value)
    status, said = machine.run("install", *arguments)
    assert status in (1, 2) and message in said and said.count("\n") == 1
    assert machine.calls() == []
    assert not unit.exists()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_only_root_changes_the_system(machine, monkeypatch, platform, action):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(launchd.pwd, "getpwuid", lambda user: launchd.pwd.getpwnam("nobody"))
    status, said = machine.run(action)
    assert status == 1 and "only root changes the system's services: call it by sudo, or give --user\n" in said
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("fails", "arguments", "says"),
    [
        ("*show-environment*", ["--user"], "no systemd of this user can be reached"),
        ("restart*", [], "`systemctl restart nightingale.service` failed: it is broken\n"),
    ],
)
def test_a_manager_that_fails(machine, fails, arguments, says):
    machine.programs(fails=fails)
    status, said = machine.run("install", *arguments)
    assert status == 1 and says in said


def test_missing_systemctl(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, said = machine.run("install")
    assert status == 1 and "'systemd-sysusers' is not on PATH" in said


def test_another_platform(machine, monkeypatch):
    monkeypatch.setattr(sys, "platform", "freebsd14")
    status, said = machine.run("status")
    assert status == 1
    assert "services are known for Linux (systemd) and macOS (launchd), not for freebsd14" in said


@pytest.mark.parametrize("name", ["a\nExecStartPre=x", os.fsdecode(b"\xff"), "\x7f", "\x85"])
def test_a_path_that_no_service_can_have_is_refused(machine, tmp_path, name):
    (tmp_path / name).write_text("")
    status, said = machine.run("install", "--config", str(tmp_path / name))
    assert status == 2 and "has control characters or is not UTF-8" in said
    assert machine.calls() == []


@linux
@pytest.mark.parametrize("user", [True, False])
@pytest.mark.parametrize("name", ["settings.toml", 'it\'s 100% "$HOME" \\n; ü.toml'])
def test_systemd_accepts_every_directive(program: Callable[[str], str], tmp_path, user, name):
    (tmp_path / name).write_text('data_dir = "/srv/100% of; voices"\n')
    unit = tmp_path / "nightingale.service"
    definition = systemd.Systemd(user).definition(ServerProgram.of_this_installation(tmp_path / name))
    verify = [program("systemd-analyze"), *(["--user"] if user else []), "verify", "--man=no", str(unit)]

    def complaints() -> list[str]:
        environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
        done = subprocess.run(verify, capture_output=True, text=True, timeout=120, check=False, env=environment)
        found = (done.stdout + done.stderr).splitlines()
        return [line for line in found if done.returncode or "nightingale" in line]

    unit.write_bytes(definition)
    assert complaints() == []
    unit.write_bytes(definition.replace(b"NoNewPrivileges=", b"NoNewPrivilege="))
    assert len(complaints()) == 1


@pytest.fixture
def mac(machine, monkeypatch) -> Machine:
    monkeypatch.setattr(sys, "platform", "darwin")
    machine.programs(absent=113)
    return machine


def test_agent_of_a_user_on_a_mac(mac, tmp_path):
    assert mac.run("install", "--user")[0] == 0
    path = tmp_path / "Library" / "LaunchAgents" / "nightingale.server.plist"
    job = plistlib.loads(path.read_bytes())
    wanted = {"Label": path.stem, "ProgramArguments": [str(COMMAND), "serve"], "RunAtLoad": True, "ExitTimeOut": 30}
    assert job.items() >= (wanted | {"KeepAlive": {"SuccessfulExit": False}}).items()
    assert "UserName" not in job
    assert mac.calls() == [
        "launchctl print gui/0/nightingale.server",
        "launchctl enable gui/0/nightingale.server",
        f"launchctl bootstrap gui/0 {path}",
    ]
    mac.programs()
    assert mac.run("install", "--user")[0] == 0
    assert mac.calls()[-1] == "launchctl kickstart gui/0/nightingale.server"
    assert mac.run("status", "--user") == (0, f"{path}: installed, running\n")
    mac.calls()
    assert mac.run("uninstall", "--user")[0] == 0
    assert mac.calls() == ["launchctl bootout gui/0/nightingale.server"]
    assert not path.exists()


def test_a_changed_job_is_loaded_again(mac, tmp_path):
    mac.programs()
    mac.run("install", "--user")
    (tmp_path / "ü & <s>.toml").write_text("drain_seconds = 1\n")
    mac.calls()
    assert mac.run("install", "--user", "--config", str(tmp_path / "ü & <s>.toml"))[0] == 0
    assert [call.split()[1] for call in mac.calls()] == ["print", "bootout", "enable", "bootstrap"]
    path = tmp_path / "Library" / "LaunchAgents" / "nightingale.server.plist"
    assert plistlib.loads(path.read_bytes())["ProgramArguments"][-1] == str(tmp_path / "ü & <s>.toml")


def test_daemon_of_a_mac_runs_as_the_caller_of_sudo_and_never_as_root(mac, monkeypatch):
    status, said = mac.run("install")
    assert status == 1 and "the server does not run as root" in said
    assert mac.calls() == []
    monkeypatch.setenv("SUDO_USER", "nobody")
    status, said = mac.run("install", "--print")
    job = plistlib.loads(said.encode())
    assert (status, job["UserName"]) == (0, "nobody")
    assert job["EnvironmentVariables"]["HOME"] == launchd.pwd.getpwnam("nobody").pw_dir
