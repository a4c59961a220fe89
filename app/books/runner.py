"""Work on jobs in the background: one at a time, those of the keys in turn.

Of several processes that share the jobs, one works on them.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from typing import IO, Final

from app.books.service import JobService, KeyRevokedError
from app.books.types import Job, JobError
from app.books.work import JobFailedError, PostponedError, work
from app.engine.admission import client
from app.errors import ServiceError, StorageError
from app.observability import metrics
from app.threads import JOBS

log = logging.getLogger(__name__)

# Seconds between two looks at what other processes did, and between two deletions of what has expired.
_POLL_SECONDS: Final = 2.0
_SWEEP_SECONDS: Final = 10.0
# Processes that may end during the work on one passage: it may be what ends them.
_MAX_STARTS: Final = 3
_REVOKED: Final = JobError("invalid_api_key", "The key of this job is no longer accepted.")
# Age in seconds from which a folder without a job is one that was left behind.
_LEFT_BEHIND: Final = 3_600.0


class JobRunner:
    """Task that works on the jobs of a service. `start` it, and `stop` it in the end; a job goes on in the next one."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs
        self._task: asyncio.Task[None] | None = None
        self._job: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._lock: IO[bytes] | None = None
        # Jobs that this process took up before.
        self._begun: set[str] = set()
        self._swept = 0.0

    def start(self) -> None:
        """Begin; call on the event loop."""
        self._jobs.on_cancel = self._cancel
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Break off the work. Later calls change nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _cancel(self, job: str) -> None:
        if job == self._job and self._work is not None:
            self._work.cancel()

    async def _run(self) -> None:
        await self._take_lock()
        await self._guarded(JOBS.run(self._clean))
        while True:
            job, version = None, self._jobs.version
            with suppress(StorageError):  # it was logged, and may be mended
                job = await self._next()
            if time.monotonic() - self._swept > _SWEEP_SECONDS:
                self._swept = time.monotonic()
                await self._guarded(self._jobs.sweep())
            if job is None:
                await self._jobs.changed(version, _POLL_SECONDS)
            else:
                await self._guarded(self._serve(job))

    async def _guarded(self, step: object) -> None:
        """Await a step, which must not end the runner."""
        try:
            await step  # type: ignore[misc]
        except Exception:
            log.exception("the work on jobs was disturbed; it goes on")
            await asyncio.sleep(_POLL_SECONDS)

    async def _take_lock(self) -> None:
        """Wait until no other process works on the jobs of this directory. Its end frees the lock."""
        directory = self._jobs.directory
        while True:
            version = self._jobs.version
            # The directory is made with the first job.
            if directory.is_dir():
                with suppress(OSError):
                    file = (directory / "runner.lock").open("ab")
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except OSError:
                        file.close()
                    else:
                        self._lock = file
                        return
            await self._jobs.changed(version, _POLL_SECONDS)

    def _clean(self) -> None:
        """Delete the folders that a process left behind before their job was kept."""
        for folder in self._jobs.directory.glob("job_*"):
            if time.time() - folder.stat().st_mtime > _LEFT_BEHIND and self._jobs.store.get(folder.name) is None:
                shutil.rmtree(folder, ignore_errors=True)

    async def _next(self) -> Job | None:
        """Return the oldest job of the key whose turn was longest ago; None: there is none.

        A job that is to be cancelled goes first.
        """
        open_jobs = self._jobs.ready(await JOBS.run(self._jobs.store.open_jobs))
        for job in open_jobs:
            if job.status == "cancelling":
                return job
        served: dict[str | None, float] = {}
        for job in open_jobs:
            served[job.owner] = max(job.served, served.get(job.owner, 0.0))
        return min(open_jobs, key=lambda job: served[job.owner], default=None)

    async def _serve(self, job: Job) -> None:
        """Work on a job for a while, and end it where it is to end."""
        if job.status != "cancelling":
            self._job, self._work = job.id, asyncio.create_task(self._take_up(job))
            try:
                await asyncio.wait({self._work})
                if not self._work.cancelled():
                    self._work.result()
                    return
            except asyncio.CancelledError:
                # The process ends. It is not the job that ended it.
                self._work.cancel()
                await asyncio.wait({self._work})
                with suppress(StorageError):
                    await JOBS.run(self._jobs.store.change, job.id, lambda each: replace(each, starts=0))
                raise
            finally:
                self._job = self._work = None
        await self._end(job.id, "cancelled")

    async def _take_up(self, job: Job) -> None:
        try:
            client.set(self._jobs.client_of(job))
        except KeyRevokedError:
            await self._end(job.id, "failed", _REVOKED)
            return
        self._jobs.postponed.pop(job.id, None)
        new = job.id not in self._begun
        self._begun.add(job.id)

        def begin(each: Job) -> Job | None:
            if each.status == "cancelling" or each.ended:
                return None
            each = each if each.status != "validating" else each.to("in_progress")
            return replace(each, starts=each.starts + new, served=time.time())

        begun = await self._jobs.change(job.id, begin)
        if begun is None or begun.status == "cancelling" or begun.ended:
            return
        try:
            if begun.starts > _MAX_STARTS:
                reason = f"The server ended {_MAX_STARTS} times while it worked on the same part."
                raise JobFailedError(JobError("model_failed", reason))
            await work(self._jobs, begun)
        except PostponedError as error:
            self._jobs.postponed[job.id] = time.monotonic() + error.seconds
        except JobFailedError as error:
            await self._end(job.id, "failed", error.reason)
        except KeyRevokedError:
            await self._end(job.id, "failed", _REVOKED)
        except ServiceError as error:
            await self._end(job.id, "failed", JobError(error.code, error.message, error.body()["param"]))
        except Exception as error:
            log.exception("the work on job %s failed", job.id)
            reason = f"An internal error occurred ({type(error).__name__}); the server's log has its cause."
            await self._end(job.id, "failed", JobError("internal_error", reason))

    async def _end(self, job: str, status: str, error: JobError | None = None) -> None:
        """End a job that has no result, and delete its files."""
        self._begun.discard(job)
        await self._jobs.discard(job)

        def end(each: Job) -> Job | None:
            if each.ended:
                return None
            each = each if error is None else replace(each, errors=(error, *each.errors))
            return self._jobs.ended(each, status, bytes=0)

        ended = await self._jobs.change(job, end)
        metrics.jobs_finished.labels(status).inc()
        if ended is not None and ended.expires == 0:
            await self._jobs.forget(job)
        await self._guarded(self._jobs.sweep())
