"""Jobs in SQLite, in a directory of their own. Several processes may use it.

A change is a transaction that reads the job, changes it and writes it, so that two of them do not undo each other.
Methods block, and are safe on any thread.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from app.books.types import ENDED, Job, JobError, JobFile, JobOptions, Totals
from app.errors import StorageError, StorageFullError

log = logging.getLogger(__name__)

VERSION: Final = 1
"""Version of the schema, which the file keeps as `user_version`."""
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT,
    status TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_by_owner ON jobs (owner, number);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, number);
PRAGMA user_version = {VERSION};
"""
# Seconds to wait for another process that writes.
_PATIENCE: Final = 10.0
_ENDED: Final = tuple(sorted(ENDED))
_MARKS: Final = ", ".join("?" * len(_ENDED))

Change = Callable[[Job], Job | None]
"""Return the changed job; None: leave it as it is."""


class JobStore:
    """Rows of jobs. The file is made with the first job."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "jobs.sqlite"
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file. It is opened again where it is needed again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def add(self, job: Job) -> None:
        """Keep a new job. Raises StorageError."""
        with self._transaction() as database:
            values = job.id, job.owner, job.status, job.bytes, _written(job)
            database.execute("INSERT INTO jobs (id, owner, status, bytes, data) VALUES (?, ?, ?, ?, ?)", values)

    def get(self, job: str) -> Job | None:
        """Return a job, or None. Raises StorageError."""
        if not self.path.exists():
            return None
        with self._transaction(write=False) as database:
            return _job(database, job)

    def change(self, job: str, change: Change) -> Job | None:
        """Change a job; return it as it is then, or None if there is none. Raises StorageError."""
        with self._transaction() as database:
            before = _job(database, job)
            after = None if before is None else change(before)
            if before is None or after is None:
                return before
            after = replace(after, revision=before.revision + 1)
            database.execute(
                "UPDATE jobs SET status = ?, bytes = ?, data = ? WHERE id = ?",
                (after.status, after.bytes, _written(after), job),
            )
            return after

    def remove(self, job: str) -> None:
        """Forget a job. Raises StorageError."""
        with self._transaction() as database:
            database.execute("DELETE FROM jobs WHERE id = ?", (job,))

    def listing(self, owner: str | None, after: str | None, limit: int, *, all_owners: bool = False) -> list[Job]:
        """Return the jobs that `owner` may see, or all, the newest first, those that follow the job `after`.

        Raises StorageError.
        """
        if not self.path.exists():
            return []
        with self._transaction(write=False) as database:
            rows = database.execute(
                "SELECT data FROM jobs WHERE (owner IS NULL OR owner = ? OR ?)"
                " AND number < coalesce((SELECT number FROM jobs WHERE id = ?), 9223372036854775807)"
                " ORDER BY number DESC LIMIT ?",
                (owner, all_owners, after, limit),
            )
            return _readable(rows)

    def open_jobs(self) -> list[Job]:
        """Return the jobs that have not ended, the oldest first. Raises StorageError."""
        return self._having(f"status NOT IN ({_MARKS})")

    def ended_jobs(self) -> list[Job]:
        """Return the jobs that have ended, the oldest first. Raises StorageError."""
        return self._having(f"status IN ({_MARKS})")

    def _having(self, condition: str) -> list[Job]:
        if not self.path.exists():
            return []
        with self._transaction(write=False) as database:
            rows = database.execute(f"SELECT data FROM jobs WHERE {condition} ORDER BY number", _ENDED)  # noqa: S608
            return _readable(rows)

    def used(self) -> dict[str | None, tuple[int, int]]:
        """Return the number of jobs and of bytes of each owner. Raises StorageError."""
        if not self.path.exists():
            return {}
        with self._transaction(write=False) as database:
            rows = database.execute("SELECT owner, count(*), sum(bytes) FROM jobs GROUP BY owner")
            return {owner: (count, size) for owner, count, size in rows}

    def counts(self) -> dict[str, int]:
        """Return the number of jobs of each status. Raises StorageError."""
        if not self.path.exists():
            return {}
        with self._transaction(write=False) as database:
            return dict(database.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall())

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                log.error("the jobs in %s cannot be used: %s", self.path, error)
                full = getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
                kind = StorageFullError if full else StorageError
                raise kind("The list of jobs cannot be read or written; the server's log has the cause.") from error


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Transactions are begun and ended here, not by the module.
    database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        elif version != VERSION:
            raise sqlite3.DatabaseError(f"its schema has version {version}, and this release knows {VERSION}")
    except BaseException:
        database.close()
        raise
    return database


def _job(database: sqlite3.Connection, job: str) -> Job | None:
    row = database.execute("SELECT data FROM jobs WHERE id = ?", (job,)).fetchone()
    return None if row is None else _read(row[0])


def _written(job: Job) -> str:
    return json.dumps({**asdict(replace(job, options=JobOptions())), "options": job.options.model_dump(mode="json")})


def _readable(rows: Iterable[tuple[str]]) -> list[Job]:
    return [job for (data,) in rows if (job := _read(data)) is not None]


def _read(data: str) -> Job | None:
    """Return the job of a row; None for one that another release wrote in other words."""
    try:
        result: dict[str, Any] = json.loads(data)
        result["options"] = JobOptions.model_validate(result["options"])
        result["before"], result["totals"] = Totals(**result["before"]), Totals(**result["totals"])
        result["errors"] = tuple(JobError(**error) for error in result["errors"])
        result["files"] = tuple(JobFile(**file) for file in result["files"])
        result["warnings"] = tuple(result.get("warnings", ()))
        return Job(**result)
    except (ValueError, TypeError, KeyError) as error:
        log.warning("a job is left out of the list, as it cannot be read: %s", type(error).__name__)
        return None
