"""Autobahn's WebSocket suite: its fuzzing client against the real application (`make autobahn` installs it).

Left out are sections 12 and 13, compression, which this server does not offer.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = [pytest.mark.autobahn, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
SUITE = ROOT / ".venv-autobahn"
PATH = "/echo"
START_SECONDS = 60

# Framing, pings, reserved bits, opcodes, fragments, UTF-8, closing; limits; fragments that come in pieces.
SECTIONS = {"1": 16, "2": 11, "3": 7, "4": 10, "5": 20, "6": 145, "7": 37, "9": 54, "10": 1}
# Messages of more than a mebibyte: 16 times `max_frame_bytes` is all that is read.
TOO_LONG = [
    *(f"9.{kind}.{size}" for kind in (1, 2) for size in (4, 5, 6)),
    *(f"9.{kind}.{size}" for kind in (3, 4) for size in range(1, 10)),
]
# A whole message and a bad frame in one piece: the connection may be failed before the message is answered.
BEFORE_THE_ANSWER = {"3.2", "3.3", "3.4", "4.1.3", "4.1.4", "4.1.5", "4.2.3", "4.2.4", "4.2.5", "5.15"}
# Bad UTF-8 may be found at the end of a message, not in its first fragment.
AT_THE_END = {"6.4.1", "6.4.2", "6.4.3", "6.4.4"}
# Data after a close frame, and close codes that nobody has defined: the suite itself only tells what it saw.
NOT_JUDGED = {"7.1.6", "7.13.1", "7.13.2"}

Report = dict[str, dict[str, Any]]


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[str]:
    """The address of an echo of the real application; its log must hold no failure in the end."""
    log = folder / "server.log"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTINGALE_", "HOST", "PORT"))}
    # The model is not what is tested.
    clean |= {"NIGHTINGALE_DATA_DIR": str(folder / "data"), "NIGHTINGALE_WARMUP": "none", "NIGHTINGALE_PORT": "0"}
    # Each frame counts, and the suite sends messages in 65,536 fragments.
    clean |= {"NIGHTINGALE_MESSAGES_PER_SECOND": "10000"}
    with log.open("w") as output:
        command = [sys.executable, str(Path(__file__).with_name("echo.py")), PATH]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=clean | environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(r"running on http://([\d.]+:\d+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield found.group(1)
        assert httpx.get(f"http://{found.group(1)}/livez").status_code == 200
        process.terminate()
        # uvicorn hands the signal on when it has ended.
        assert process.wait(30) == -signal.SIGTERM, log.read_text()
        for never in ("Exception in ASGI", "never retrieved", "was destroyed but it is pending", "Traceback"):
            assert never not in log.read_text(), log.read_text()[-5_000:]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def fuzz(address: str, folder: Path, cases: Sequence[str]) -> Report:
    """Verdict of the fuzzing client on each case."""
    program = SUITE / "bin" / "wstest"
    assert program.exists(), "the suite is not installed: `make autobahn` does that"
    specification = folder / "cases.json"
    specification.write_text(
        json.dumps(
            {
                "outdir": str(folder / "report"),
                "servers": [{"agent": "nightingale", "url": f"ws://{address}{PATH}"}],
                "cases": list(cases),
                "exclude-cases": [],
                "exclude-agent-cases": {},
            }
        )
    )
    command = [str(program), "-m", "fuzzingclient", "-s", str(specification)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SUITE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )
    index = folder / "report" / "index.json"
    assert index.exists(), done.stdout[-3_000:]
    report: Report = json.loads(index.read_text())["nightingale"]
    return report


def bad(report: Report, skipped: Sequence[str] = ()) -> dict[str, Any]:
    """The cases that did not go as they must, with what the suite says of them."""
    wrong = {}
    for name, case in report.items():
        accepted = {"OK"}
        if name in BEFORE_THE_ANSWER | AT_THE_END:
            accepted.add("NON-STRICT")
        if name in NOT_JUDGED:
            accepted.add("INFORMATIONAL")
        if name not in skipped and not {case["behavior"], case["behaviorClose"]} <= accepted:
            wrong[name] = case
    return wrong


def test_the_protocol(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        report = fuzz(address, tmp_path, [f"{section}.*" for section in SECTIONS])
    ran = [name.split(".", maxsplit=1)[0] for name in report]
    assert {section: ran.count(section) for section in SECTIONS} == SECTIONS
    assert bad(report, TOO_LONG) == {}
    # The reason for what is skipped: these were refused for their length, by the close code that says so.
    assert {name: report[name]["remoteCloseCode"] for name in TOO_LONG} == dict.fromkeys(TOO_LONG, 1009)


def test_long_messages_where_the_settings_allow_them(tmp_path: Path) -> None:
    # Sixteen mebibytes, the suite's longest.
    with serving(tmp_path, NIGHTINGALE_MAX_FRAME_BYTES=str(1 << 20)) as address:
        report = fuzz(address, tmp_path, TOO_LONG)
    assert sorted(report) == sorted(TOO_LONG)
    assert bad(report) == {}
