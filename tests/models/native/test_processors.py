"""Processors that a process may use, by its control groups of either version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models.native import processors
from models.native.processors import cpu_count, cpu_quota


def write(root: Path, **files: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)


def quota(tmp_path: Path, groups: str) -> float | None:
    (tmp_path / "groups").write_text(groups)
    return cpu_quota(tmp_path / "groups", tmp_path / "root")


def test_no_groups_bound_nothing(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "absent", tmp_path) is None
    assert quota(tmp_path, "0::/\n") is None
    assert quota(tmp_path, "strange\n") is None


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "a" / "b", cpu__max="max 100000\n")
    assert quota(tmp_path, "0::/a/b\n") is None
    write(root / "a", cpu__max="250000 100000\n")
    assert quota(tmp_path, "0::/a/b\n") == 2.5
    write(root / "a" / "b", cpu__max="50000 100000\n")
    assert quota(tmp_path, "0::/a/b\n") == 0.5
    assert quota(tmp_path, "0::/a\n") == 2.5


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    write(tmp_path / "root", cpu__max="100000 100000\n")
    assert quota(tmp_path, "0::/\n") == 1.0
    write(tmp_path / "root" / "cpu,cpuacct", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="50000\n")
    assert quota(tmp_path, "4:memory:/x\n3:cpu,cpuacct:/docker/0123\n") == 3.0


def test_first_version_without_a_bound(tmp_path: Path) -> None:
    write(tmp_path / "root" / "cpu", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert quota(tmp_path, "1:cpu:/\n") is None


def test_unreadable_numbers_bound_nothing(tmp_path: Path) -> None:
    write(tmp_path / "root", cpu__max="")
    assert quota(tmp_path, "0::/\n") is None
    write(tmp_path / "root", cpu__max="100000 0\n")
    assert quota(tmp_path, "0::/\n") is None


@pytest.mark.parametrize(("quota", "expected"), [(0.2, 1), (1.0, 1), (1.5, 2), (None, None), (1000.0, None)])
def test_count_is_rounded_up_and_at_least_one(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: int | None
) -> None:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    monkeypatch.setattr(processors, "_own_quota", lambda: quota)
    assert cpu_count() == (allowed if expected is None else min(allowed, expected))
