"""The image runs as an orchestrator would run it: as its user, without capabilities, network and a writable root."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.clients import SPOKEN
from tests.image.conftest import BASE_SECONDS, BUILD_SECONDS, NAMESPACES, Image
from tests.processes import START_SECONDS, STOP_SECONDS, run, wait_until

USER = 10001
SENTENCE = "The weather is fine today, and the train leaves in the morning."
pytestmark = [pytest.mark.proof, pytest.mark.timeout(BASE_SECONDS + BUILD_SECONDS + START_SECONDS + 300)]

# In namespaces of its own: a read-only root, the volume, and a network of the loopback device alone.
ENTER = """
set -e
root="$1" data="$2" python="$3"; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount --bind "$data" "$root/data"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
"$python" -c '
import fcntl, socket, struct
flags = struct.pack("16sh22x", b"lo", 0x41)  # IFF_UP and IFF_RUNNING
fcntl.ioctl(socket.socket(), 0x8914, flags)  # SIOCSIFFLAGS
'
exec "$@"
"""
SPEAK = """
import sys, httpx
body = {"input": sys.argv[1]}
reply = httpx.post("http://127.0.0.1:8000/v1/audio/speech", json=body, timeout=180, trust_env=False)
sys.stdout.buffer.write(reply.raise_for_status().content)
"""
UPLOAD = """
import pathlib, sys, httpx
files, data = {"file": pathlib.Path(sys.argv[1]).read_bytes()}, {"name": "somebody", "consent": "true"}
reply = httpx.post("http://127.0.0.1:8000/v1/audio/voices", files=files, data=data, timeout=180, trust_env=False)
print(reply.raise_for_status().json()["duration"])
"""


@dataclass
class Container:
    """Processes of one container; `process` is outside of its namespaces and ends with its first process."""

    image: Image
    data: Path
    process: subprocess.Popen[bytes] | None = None

    def inside(self, *command: str, **environment: str) -> list[str]:
        """Return the command line of a process with the image's user and environment, and without any capability."""
        given = [*self.image.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
        user, _, group = self.image.config["User"].partition(":")
        # fmt: off
        return [
            "chroot", str(self.image.root), "setpriv", "--reuid", user, "--regid", group, "--clear-groups",
            "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
            "env", "-i", "-C", self.image.config["WorkingDir"], *given, *command,
        ]
        # fmt: on

    def new(self, *command: str, **environment: str) -> list[str]:
        """Return the command line that makes the namespaces; `command` has process id 1 in them."""
        places = (str(self.image.root), str(self.data), sys.executable)
        return [*NAMESPACES, "sh", "-c", ENTER, "sh", *places, *self.inside(*command, **environment)]

    @property
    def first(self) -> int:
        """Process id of the first process, outside."""
        assert self.process is not None
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def also(self, *command: str, namespaces: tuple[str, ...] = ("--net",)) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the namespaces of the container."""
        entered = ["nsenter", "--target", str(self.first), *namespaces, *command]
        return run(*entered, text=False)

    def healthy(self, **environment: str) -> bool:
        """Return what the image's own health check finds."""
        kind, *command = self.image.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.also(*self.inside(*command, **environment), namespaces=("--net", "--mount")).returncode == 0


@pytest.fixture
def container(image: Image, tmp_path: Path) -> Iterator[Container]:
    data = tmp_path / "data"
    data.mkdir(mode=0o750)
    shutil.chown(data, USER, USER)
    made = Container(image, data)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def start(container: Container, log: Path) -> None:
    """Start what the image starts, and wait until its health check succeeds."""
    command = [*container.image.config["Entrypoint"], *container.image.config["Cmd"]]
    with log.open("w") as output:
        container.process = subprocess.Popen(
            container.new(*command, NIGHTINGALE_ALLOW_PUBLIC="true"), stdout=output, stderr=subprocess.STDOUT
        )

    def healthy() -> bool:
        assert container.process.poll() is None, log.read_text()
        return " running on " in log.read_text() and container.healthy()

    wait_until(healthy, log.read_text, START_SECONDS)


def test_it_serves_without_network_and_writable_root_and_ends_on_sigterm(container, tmp_path, recognize):
    log = tmp_path / "log"
    start(container, log)
    assert not container.healthy(PORT="8001")  # nobody listens there
    spoken = container.also(sys.executable, "-c", SPEAK, SENTENCE)
    assert spoken.returncode == 0, spoken.stderr.decode()
    heard = recognize(spoken.stdout)
    assert sum(word in heard for word in ("weather", "fine", "today", "train", "leaves", "morning")) >= 4, heard
    # Large enough to be spooled on the disk, and decoded in a process of its own.
    samples, rate = soundfile.read(SPOKEN, dtype="float32")
    soundfile.write(tmp_path / "long.wav", np.tile(samples, 4), rate, subtype="FLOAT")
    assert (tmp_path / "long.wav").stat().st_size > 1 << 20
    uploaded = container.also(sys.executable, "-c", UPLOAD, str(tmp_path / "long.wav"))
    assert uploaded.returncode == 0, uploaded.stderr.decode()
    assert float(uploaded.stdout) == pytest.approx(4 * len(samples) / rate, abs=0.1)
    # The kernels of the image are in use: there is no compiler, and nothing new lies in the cache.
    assert "not in use" not in log.read_text(), log.read_text()
    assert not list(container.data.glob("cache/nightingale/*.so"))
    status = Path(f"/proc/{container.first}/status").read_text()
    assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in status
    os.kill(container.first, signal.SIGTERM)
    assert container.process.wait(STOP_SECONDS) == 0, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()


def test_it_asks_for_a_decision_about_access(container):
    command = [*container.image.config["Entrypoint"], *container.image.config["Cmd"]]
    done = run(*container.new(*command))
    assert done.returncode == 2
    assert "keys_file" in done.stderr
    assert "allow_public" in done.stderr


def test_uploads_are_spooled_in_the_volume(container):
    command = ("/opt/nightingale/bin/python", "-c", "import tempfile; print(tempfile.gettempdir())")
    done = run(*container.new(*command))
    assert done.stdout == "/data\n", done.stderr


def test_a_volume_of_another_user_is_refused_in_one_line(container):
    shutil.chown(container.data, 0, 0)
    container.data.chmod(0o755)
    done = run(*container.new("/opt/nightingale/bin/nightingale", "doctor"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "/data/cache/nightingale: Permission denied" in done.stderr


def test_only_root_can_change_the_program(image):
    def foreign(path: Path) -> bool:
        status = path.lstat()
        return status.st_uid != 0 or (not stat.S_ISLNK(status.st_mode) and bool(status.st_mode & 0o022))

    program = image.root / "opt" / "nightingale"
    assert [path for path in (program, *program.rglob("*")) if foreign(path)] == []
    assert {path.name.split("-")[0] for path in (program / "share" / "nightingale").glob("*.so")} == {"blas", "native"}


def test_the_image_has_no_compiler_and_no_pip(image):
    assert [name for name in ("g++", "gcc", "cc", "pip", "pip3") if (image.root / "usr" / "bin" / name).exists()] == []
    assert not (image.root / "opt" / "nightingale" / "bin" / "pip").exists()


def test_configuration(image):
    config = image.config
    assert config["User"] == f"{USER}:{USER}"
    assert list(config["Volumes"]) == ["/data"]
    assert list(config["ExposedPorts"]) == ["8000/tcp"]
    assert config["Entrypoint"] == ["/opt/nightingale/bin/nightingale"]
    assert config["Cmd"] == ["serve"]
