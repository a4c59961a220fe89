"""Pulling from a hub on loopback: checks, faults, interruption and resumption."""

from __future__ import annotations

import fcntl
import hashlib
import random
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from app.engine import download
from app.engine.catalog import Entry, PinnedFile
from app.engine.download import HubError, pull
from tests.app.engine import hub_server
from tests.processes import ROOT, wait_until

WEIGHTS = "weights.pth"
FILES = {
    "config.json": b'{"tiny": true}',
    WEIGHTS: random.Random(7).randbytes(3_000_000),
    "voices/a.pt": random.Random(8).randbytes(5_000),
    "voices/b.pt": random.Random(9).randbytes(5_000),
}


def pin(path: str, content: bytes, *, sized: bool = True) -> PinnedFile:
    return PinnedFile(path, hashlib.sha256(content).hexdigest(), len(content) if sized else None)


ENTRY = Entry(
    name="tiny",
    family="kokoro",
    description="",
    parameters=1,
    license="",
    aliases=(),
    roles={"config": ("config.json",), "weights": (WEIGHTS,), "voices": ("voices",)},
    repository=hub_server.REPOSITORY,
    revision=hub_server.REVISION,
    files=tuple(pin(path, content, sized=not path.startswith("voices/")) for path, content in FILES.items()),
)


@pytest.fixture
def hub():
    with hub_server.serve(dict(FILES)) as running:
        yield running


@pytest.fixture
def target(tmp_path) -> Path:
    return tmp_path / "models" / "tiny"


def partial(target: Path) -> Path:
    return target.with_name("tiny.partial")


def installed(target: Path) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def fetch(hub, target):
    """Pull what can be pulled whole."""
    done = pull(ENTRY, target, endpoint=hub.endpoint, progress=False)
    assert installed(target) == FILES
    return done


def refuse(hub, target, says, entry=ENTRY):
    """Pull what is refused in one line; what was installed stays as it was."""
    before = installed(target)
    with pytest.raises(HubError, match=says) as caught:
        pull(entry, target, endpoint=hub.endpoint, progress=False)
    assert "\n" not in str(caught.value)
    assert installed(target) == before


def test_pull_installs_every_file_and_leaves_nothing_behind(hub, target):
    done = fetch(hub, target)
    assert set(done.fetched) == set(FILES)
    assert [path.name for path in target.parent.iterdir()] == ["tiny"]


def test_second_pull_reads_the_disk_and_asks_the_hub_nothing(hub, target):
    fetch(hub, target)
    hub.requests.clear()
    done = fetch(hub, target)
    assert (done.fetched, set(done.intact)) == ((), set(FILES))
    assert hub.requests == []


def test_pull_repairs_only_what_is_damaged(hub, target):
    fetch(hub, target)
    hub.requests.clear()
    (target / "voices/a.pt").write_bytes(b"damaged")
    (target / "voices/b.pt").unlink()
    done = fetch(hub, target)
    assert set(done.fetched) == {"voices/a.pt", "voices/b.pt"}
    assert installed(target) == FILES
    assert installed(target.with_name("tiny.replaced")) == {"voices/a.pt": b"damaged"}
    assert hub.ranges(WEIGHTS) == []


@pytest.mark.parametrize(
    "own", [{WEIGHTS: b"own"}, {"config.json": b"{}", "voices/a.pt": b"own"}, FILES | {WEIGHTS: b"own"}]
)
def test_files_that_no_pull_wrote_are_not_replaced(hub, target, own):
    for path, content in own.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(content)
    wrong = [path for path in FILES if own.get(path, FILES[path]) != FILES[path]]
    refuse(hub, target, rf"tiny: {len(wrong)} files .* such as {wrong[0]}, .*community checkpoint")
    assert hub.requests == []
    for path in wrong:
        (target / path).unlink()
    fetch(hub, target)


def test_progress_goes_to_stderr_and_ends_full(hub, target, capsys):
    pull(ENTRY, target, endpoint=hub.endpoint, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "tiny: 100%" in err


@pytest.mark.parametrize("path", list(FILES))
def test_corrupt_file_is_refused_and_nothing_is_installed(hub, target, path):
    content = bytearray(FILES[path])
    content[len(content) // 2] ^= 1
    hub.served[path] = bytes(content)
    refuse(hub, target, rf"{path} arrived with the wrong checksum")
    del hub.served[path]
    fetch(hub, target)


def test_listing_with_another_checksum_stops_before_the_download(hub, target):
    hub.files[WEIGHTS] = b"x" * 3_000_000
    refuse(hub, target, "not the pinned one")
    assert hub.ranges(WEIGHTS) == []


def test_connection_that_breaks_is_taken_up_where_it_broke(hub, target):
    hub.drop_after[WEIGHTS] = [1_000_000]
    fetch(hub, target)
    first, second = hub.ranges(WEIGHTS)
    assert first is None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= 1_000_000


PULL = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.app.engine.test_download import ENTRY
from app.engine.download import pull
pull(ENTRY, Path(sys.argv[1]), endpoint=sys.argv[2], progress=False)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_pull_goes_on_from_what_it_had(hub, target, how):
    hub.gate.clear()
    command = [sys.executable, "-c", PULL, str(target), hub.endpoint]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)
    part = partial(target) / f"{WEIGHTS}.part"
    try:
        wait_until(lambda: part.exists() and part.stat().st_size > 200_000)
        assert process.poll() is None, "ended before it could be interrupted"
        process.send_signal(how)
        assert process.wait(60) != 0
    finally:
        process.kill()
        process.wait()
        hub.gate.set()
    have = part.stat().st_size
    assert 200_000 < have < len(FILES[WEIGHTS])
    assert not target.exists()
    hub.requests.clear()
    fetch(hub, target)
    assert hub.ranges(WEIGHTS) == [f"bytes={have}-"]
    assert installed(target) == FILES


def test_resume_starts_over_when_the_hub_ignores_ranges(hub, target):
    partial(target).mkdir(parents=True)
    (partial(target) / f"{WEIGHTS}.part").write_bytes(FILES[WEIGHTS][:1_000_000])
    hub.ignore_ranges = True
    fetch(hub, target)


@pytest.mark.parametrize("rest", [b"not what was there" * 1000, FILES[WEIGHTS] + b"too long"])
def test_wrong_leftovers_do_not_get_in(hub, target, rest):
    partial(target).mkdir(parents=True)
    (partial(target) / f"{WEIGHTS}.part").write_bytes(rest)
    if len(rest) < len(FILES[WEIGHTS]):
        refuse(hub, target, "wrong checksum")
    fetch(hub, target)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"repository": "someone/else"}, "has no someone/else at revision"),
        ({"revision": "f" * 40}, "has no someone/tiny at revision ffff"),
        ({"files": (*ENTRY.files, pin("voices/c.pt", b"c"))}, r"has no voices/c\.pt"),
    ],
)
def test_what_the_hub_does_not_have(hub, target, change, says):
    refuse(hub, target, says, replace(ENTRY, **change))


def test_file_gone_between_listing_and_download(hub, target):
    hub.status["voices/a.pt"] = 404
    refuse(hub, target, hub.endpoint)


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_hub_that_refuses(hub, target, status):
    hub.status[WEIGHTS] = status
    refuse(hub, target, hub.endpoint)


def test_something_that_is_no_hub(hub, target):
    hub.not_json = True
    refuse(hub, target, "does not answer like a Hugging Face hub")


def test_nobody_listens(target):
    with socket.socket() as bound:  # bound and not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(HubError, match=f"cannot reach {endpoint}") as caught:
            pull(ENTRY, target, endpoint=endpoint, progress=False)
    assert "\n" not in str(caught.value)


def test_offline_mode_is_honored(hub, target, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refuse(hub, target, "HF_HUB_OFFLINE")
    assert hub.requests == []


@pytest.mark.parametrize("endpoint", ["hub.example", "file:///tmp", "http://"])
def test_endpoint_must_be_a_web_address(target, endpoint):
    with pytest.raises(HubError, match="must be an http"):
        pull(ENTRY, target, endpoint=endpoint, progress=False)


def test_bundled_model_cannot_be_pulled(target):
    with pytest.raises(HubError, match="nothing to pull"):
        pull(replace(ENTRY, repository=None), target, progress=False)


def test_disk_that_is_too_small_is_noticed_first(hub, target, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1_000_000))
    refuse(hub, target, r"needs 3 MB more on the disk .* has 1 MB free")
    assert hub.ranges(WEIGHTS) == []


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n" + PULL


@pytest.mark.parametrize("path", [WEIGHTS, "config.json", "voices/a.pt"])
def test_file_without_an_end_is_stopped_at_its_size(hub, target, path):
    hub.endless.add(path)
    refuse(hub, target, f"{path} arrives with another size than its {len(FILES[path])} bytes")
    # What was not read yet lies in the buffers of two sockets.
    assert hub.sent < 30 << 20
    assert not (partial(target) / f"{path}.part").exists()
    assert sum(file.stat().st_size for file in partial(target).rglob("*")) <= sum(map(len, FILES.values()))
    assert not target.exists()
    hub.endless.clear()
    fetch(hub, target)


@pytest.mark.parametrize("more", [1, 1_000_000, -1])
def test_file_of_another_size_is_refused_before_it_is_read(hub, target, more):
    hub.served[WEIGHTS] = (FILES[WEIGHTS] + bytes(1_000_000))[: len(FILES[WEIGHTS]) + more]
    hub.pace = 0.02
    refuse(hub, target, "arrives with another size")
    assert not (partial(target) / f"{WEIGHTS}.part").exists()
    assert len(hub.ranges(WEIGHTS)) == 1


def test_only_files_may_be_long(hub, target, monkeypatch):
    monkeypatch.setattr(download, "MAX_ANSWER", 4_000)
    hub.elsewhere = True
    fetch(hub, target)
    hub.status["config.json"] = 500
    (target / "config.json").unlink()
    monkeypatch.setattr(download, "MAX_ANSWER", 4)
    refuse(hub, target, "does not come to an end")


@pytest.mark.parametrize("packed", [False, True])
def test_listing_without_an_end(hub, target, packed):
    hub.endless.add("listing")
    hub.packed = packed
    refuse(hub, target, "nothing was installed")
    assert hub.sent < 60 << 20
    assert hub.ranges(WEIGHTS) == []


def test_a_size_that_is_not_pinned_has_a_bound(hub, target):
    huge = bytes(65 << 20)
    hub.files["voices/a.pt"] = huge
    files = tuple(pin("voices/a.pt", huge, sized=False) if each.path == "voices/a.pt" else each for each in ENTRY.files)
    refuse(hub, target, "not the pinned one", replace(ENTRY, files=files))
    assert hub.ranges("voices/a.pt") == []


def test_write_that_fails_is_one_line(hub, target):
    command = [sys.executable, "-c", LIMITED, str(target), hub.endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("app.engine.download.HubError: cannot write to ")
    assert done.stderr.splitlines()[-1].endswith(": File too large")
    assert not target.exists()


def test_folder_that_cannot_be_made(hub, tmp_path):
    (tmp_path / "models").write_text("a file where a folder should be")
    with pytest.raises(HubError, match="cannot write to"):
        pull(ENTRY, tmp_path / "models" / "tiny", endpoint=hub.endpoint, progress=False)


def test_two_pulls_at_once_do_not_mix(hub, target):
    partial(target).mkdir(parents=True)
    with (partial(target) / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refuse(hub, target, "another pull")
    fetch(hub, target)


def test_no_telemetry_and_no_credentials(hub, target, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch(hub, target)
    assert len(hub.headers) == 1 + len(FILES)
    assert all("authorization" not in {key.lower() for key in headers} for headers in hub.headers)
    assert all("agent-harnesses" not in path for _, path, _ in hub.requests)
