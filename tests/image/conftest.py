"""The image, built by buildah from Dockerfile on a base that debootstrap makes, as no registry is asked."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.processes import ROOT

FOLDER = ROOT / "build" / "image"
BASE_SECONDS, BUILD_SECONDS = 600, 1200
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True)
class Image:
    """The file system of an image, and its configuration in Docker's words."""

    root: Path
    config: dict[str, Any]


def run(*command: object, seconds: float = 120) -> str:
    """Return what a command prints; it must succeed."""
    done = processes.run(*command, seconds=seconds)
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


def make_base(debootstrap: str) -> Path:
    """Return an archive with Debian's minimal system; it is made once and kept in build/."""
    archive = FOLDER / "base.tar"
    if not archive.exists():
        base, unfinished = FOLDER / "base", FOLDER / "base.part"
        shutil.rmtree(base, ignore_errors=True)
        run(debootstrap, "--variant=minbase", "bookworm", base, seconds=BASE_SECONDS)
        run("tar", "-C", base, "--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "-cf", unfinished, ".")
        unfinished.rename(archive)
        shutil.rmtree(base)
    return archive


def pip_options() -> list[str]:
    """Return options by which pip in the build asks whom this machine's pip asks, and trusts the same certificates."""
    machine = FOLDER / "machine"
    machine.mkdir(exist_ok=True)
    lines = ["[global]", "retries = 10"]
    if certificates := os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE"):
        shutil.copy(certificates, machine / "certificates.pem")
        lines.append("cert = /machine/certificates.pem")
    if index := os.environ.get("PIP_INDEX_URL"):
        lines.append(f"index-url = {index}")
    (machine / "pip.conf").write_text("\n".join(lines) + "\n")
    return ["--volume", f"{machine}:/machine:ro", "--volume", f"{machine}/pip.conf:/etc/pip.conf:ro"]


@pytest.fixture(scope="session")
def image(program: Callable[[str], str]) -> Iterator[Image]:
    """The target `cpu`."""
    if sys.platform != "linux" or os.geteuid() != 0:
        if os.environ.get("CI") and sys.platform == "linux":
            pytest.fail("an image can be built by root alone")
        pytest.skip("an image can be built by root alone")
    refused = processes.run(*NAMESPACES, "true")
    if refused.returncode:
        pytest.skip(f"this machine gives no namespaces to build and run an image in: {refused.stderr.strip()}")
    buildah, debootstrap = program("buildah"), program("debootstrap")
    FOLDER.mkdir(parents=True, exist_ok=True)
    storage = FOLDER / "storage"
    shutil.rmtree(storage, ignore_errors=True)
    # Neither the kernel's overlays nor user namespaces are needed.
    tool = (buildah, "--root", storage, "--runroot", FOLDER / "run", "--storage-driver", "vfs")
    try:
        base = run(*tool, "from", "scratch")
        run(*tool, "add", base, make_base(debootstrap), "/")
        run(*tool, "commit", "--rm", base, "localhost/base")
        run(
            *(*tool, "bud", "--isolation", "chroot", "--network", "host", "--format", "docker", "--target", "cpu"),
            *("--build-arg", "BASE=localhost/base", *pip_options(), "--tag", "localhost/nightingale", ROOT),
            seconds=BUILD_SECONDS,
        )
        inspected = json.loads(run(*tool, "inspect", "--type", "image", "localhost/nightingale"))
        container = run(*tool, "from", "localhost/nightingale")
        yield Image(Path(run(*tool, "mount", container)), inspected["Docker"]["config"])
        run(*tool, "unmount", container)
    finally:
        shutil.rmtree(storage, ignore_errors=True)
