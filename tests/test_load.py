"""The load script against a real server, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "loadtest" / "load.py"
_spec = importlib.util.spec_from_file_location("load", SCRIPT)
load = sys.modules.setdefault("load", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(load)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=110, check=False
    )


def test_both_surfaces_are_measured(server):
    done = run("--url", server, "--clients", "2", "--requests", "4", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["machine"]["cpus"] >= 1
    assert [group["surface"] for group in report["surfaces"]] == ["http", "websocket"]
    for group in report["surfaces"]:
        assert (group["served"], group["errors"]) == (2, {})
        assert 0 < group["first"]["50"] <= group["total"]["50"] <= group["total"]["99"] < report["seconds"] * 1.01
        assert 1.5 < group["audio"] < 12  # one short and one middling text each
        assert group["rtf"]["50"] > 0
    # The same texts in the same voice: both surfaces count the same sound.
    http, websocket = (group["audio"] for group in report["surfaces"])
    assert http == pytest.approx(websocket, abs=0.01)


def test_errors_are_counted_and_fail_the_run(server):
    done = run("--url", server, "--clients", "2", "--requests", "4", "--voice", "nobody")
    assert done.returncode == 1
    assert "http: 2 x HTTP 400" in done.stdout
    assert "websocket: 2 x unknown_voice" in done.stdout


def test_other_machines_are_refused():
    done = run("--url", "http://192.0.2.1:8000")
    assert done.returncode == 2
    assert "--allow-remote" in done.stderr


@pytest.mark.parametrize("arguments", [["--clients", "0"], ["--requests", "0"], ["--url", "ftp://127.0.0.1"]])
def test_wrong_usage(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_server():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        done = run("--url", f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no ready server" in done.stderr


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("127.8.8.8", True), ("192.0.2.1", False), ("8.8.8.8", False)],
)
def test_loopback(host, local):
    assert load.is_loopback(host) is local


def test_percentiles_leave_errors_out():
    results = [load.Result("http", 0.1 * n, 0.2 * n, 1.0) for n in range(1, 101)]
    results += [load.Result("http", error="HTTP 503")] * 7
    summary = load.summarise("http", results)
    assert summary.served == 100
    assert summary.errors == {"HTTP 503": 7}
    assert summary.first[50] == pytest.approx(5.05)
    assert summary.total[99] == pytest.approx(19.802)
    assert summary.rtf[95] == pytest.approx(19.01)
    assert load.summarise("http", []).first == {}
    assert "503" not in load.table([summary])
