"""Rows of jobs: changes, pages, several processes."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from app.books.store import JobStore
from app.books.types import MAX_ERRORS, Job, JobError, JobFile, JobOptions, Totals
from app.errors import StorageError


def job(name: str, owner: str | None = None, **fields: object) -> Job:
    return Job(id=f"job_{name}", owner=owner, name=f"{name}.txt", options=JobOptions(), created=1, **fields)  # type: ignore[arg-type]


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = job(
        "a",
        "ada",
        metadata={"ü": "\n"},
        client={"name": "ada"},
        before=Totals(1, 2, 3, 4.5),
        errors=(JobError("x", "y", None, 3),),
        files=(JobFile("b.m4b", 7, "audio/mp4"),),
        times={"validating": 5},
        warnings=("w",),
    )
    kept = replace(kept, options=JobOptions(lexicons=("l",), subtitles=("srt",), speed=1.5))
    JobStore(tmp_path / "new").add(kept)
    assert JobStore(tmp_path / "new").get("job_a") == kept


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "absent")
    assert (store.get("a"), store.listing(None, None, 9), store.open_jobs(), store.used()) == (None, [], [], {})
    assert not (tmp_path / "absent").exists()


def test_pages_of_one_owner_and_of_everybody(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    for name, owner in (("1", "ada"), ("2", None), ("3", "bob"), ("4", "ada")):
        store.add(job(name, owner))
    assert [each.id for each in store.listing("ada", None, 2)] == ["job_4", "job_2"]
    assert [each.id for each in store.listing("ada", "job_2", 2)] == ["job_1"]
    assert [each.id for each in store.listing(None, None, 9)] == ["job_2"]


def test_changes_do_not_undo_each_other(tmp_path: Path) -> None:
    JobStore(tmp_path).add(job("a"))

    def count() -> None:
        store = JobStore(tmp_path)  # a connection of its own, as another process has
        for _ in range(20):
            store.change("job_a", lambda each: replace(each, bytes=each.bytes + 1))
        store.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = JobStore(tmp_path).get("job_a")
    assert found is not None
    assert (found.bytes, found.revision) == (80, 81)
    assert JobStore(tmp_path).used() == {None: (1, 80)}


def test_a_change_may_be_none(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(job("a"))
    assert store.change("job_a", lambda each: None) == store.get("job_a")
    assert store.change("job_b", lambda each: each) is None


def test_a_row_of_another_release_is_left_out(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(job("a"))
    store.add(job("b"))
    store.close()
    with sqlite3.connect(tmp_path / "jobs.sqlite") as database:
        database.execute("UPDATE jobs SET data = replace(data, '\"speed\"', '\"pace\"') WHERE id = 'job_a'")
    database.close()
    assert [each.id for each in JobStore(tmp_path).listing(None, None, 9)] == ["job_b"]
    assert JobStore(tmp_path).get("job_a") is None


def test_errors_have_a_bound() -> None:
    full = job("a")
    for line in range(2 * MAX_ERRORS):
        full = full.with_error(JobError("x", "y", line=line))
    assert len(full.errors) == MAX_ERRORS


@pytest.mark.parametrize("content", [b"no database, but longer than the header of one" * 9, None])
def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        with sqlite3.connect(tmp_path / "jobs.sqlite") as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
    else:
        (tmp_path / "jobs.sqlite").write_bytes(content)
    with pytest.raises(StorageError, match="cannot be read"):
        JobStore(tmp_path).get("job_a")
