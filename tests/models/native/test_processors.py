"""Processors that a process may use, by its control groups of either version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.native import kernels, processors
from models.native.processors import cpu_count, cpu_quota

ABOVE = {"a/cpu.max": "250000 100000\n"}


@pytest.mark.parametrize(
    ("files", "groups", "expected"),
    [
        ({}, None, None),
        ({}, "0::/\n", None),
        ({}, "strange\n", None),
        # The tightest group above counts.
        ({"a/b/cpu.max": "max 100000\n"}, "0::/a/b\n", None),
        (ABOVE | {"a/b/cpu.max": "max 100000\n"}, "0::/a/b\n", 2.5),
        (ABOVE | {"a/b/cpu.max": "50000 100000\n"}, "0::/a/b\n", 0.5),
        (ABOVE | {"a/b/cpu.max": "50000 100000\n"}, "0::/a\n", 2.5),
        # A container sees its group as the root.
        ({"cpu.max": "100000 100000\n"}, "0::/\n", 1.0),
        (
            {
                "cpu.max": "100000 100000\n",
                "cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
                "cpu,cpuacct/cpu.cfs_period_us": "50000\n",
            },
            "4:memory:/x\n3:cpu,cpuacct:/docker/0123\n",
            3.0,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "1:cpu:/\n", None),
        # Numbers that cannot be read bound nothing.
        ({"cpu.max": ""}, "0::/\n", None),
        ({"cpu.max": "100000 0\n"}, "0::/\n", None),
    ],
)
def test_quota_of_control_groups(
    tmp_path: Path, files: dict[str, str], groups: str | None, expected: float | None
) -> None:
    if groups is not None:
        (tmp_path / "groups").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cpu_quota(tmp_path / "groups", tmp_path / "root") == expected


def allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.mark.parametrize(("quota", "expected"), [(0.2, 1), (1.0, 1), (1.5, 2), (None, 1000), (1000.0, 1000)])
def test_quota_is_rounded_up(monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: int) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processors, "_own_quota", lambda: quota)
    assert cpu_count() == min(allowed(), expected)


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("1,4", 1), ("0", 1000), ("", 1000), ("many", 1000), ("999", 1000)]
)
def test_threads_of_the_environment_are_a_bound(monkeypatch: pytest.MonkeyPatch, value: str, expected: int) -> None:
    monkeypatch.setattr(processors, "_own_quota", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert cpu_count() == min(allowed(), expected)


NAMES = """
import sys, time
from pathlib import Path
from models.backend import mx
from models.native import kernels
mx.eval(kernels.conv1d(mx.ones((1, 900, 16)), kernels.pack_conv(mx.ones((3, 16, 16)))))
def names():
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
end = time.monotonic() + 60
# A thread gets its name once it runs.
while sum(name.startswith("nightingale-") for name in names()) < int(sys.argv[1]) - 1 and time.monotonic() < end:
    time.sleep(0.01)
print(kernels.description(), *sorted(names()))
"""


@pytest.mark.skipif(not kernels.available(), reason="no native kernels on this device")
@pytest.mark.parametrize("threads", sorted({1, min(2, allowed())}))
def test_native_kernels_use_as_many_threads(threads: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NAMES, str(threads)],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert f", {threads} thread" in done.stdout
    assert [name for name in done.stdout.split() if name.startswith("nightingale-")] == ["nightingale-1"][: threads - 1]
