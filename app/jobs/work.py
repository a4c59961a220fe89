"""One turn of work on a job: speak its next chapter, or put its chapters together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from app import errors
from app.audio.subtitles import Cue, cues
from app.documents.types import Document, Passage
from app.engine.jobs import Priority
from app.jobs import results
from app.jobs.journal import ChapterJournal, Record
from app.jobs.service import JobService, load_document, owner_of, script
from app.jobs.types import Job, JobError, Totals
from app.observability import metrics
from app.speech.sentence import SpokenChunk
from app.speech.service import PreparedSpeech
from app.speech.stream import SpeechStream
from app.voices.store import storage_error
from models.contract import MAX_SPEED
from models.timeline import Timeline

log = logging.getLogger(__name__)

T = TypeVar("T")

# Times that a passage is tried on which the model fails.
_ATTEMPTS: Final = 3
# Passages in a row that cannot be spoken: the next ones cannot, either.
_FAILED_IN_A_ROW: Final = 10
# Seconds between two attempts of what cannot be done now: they double, up to the second number.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
# Seconds for which a server that cannot serve is tried.
_UNAVAILABLE_SECONDS: Final = 3_600.0
# Seconds between two looks whether the live streams leave room.
_PAUSE: Final = 0.5
# Faster speech is hard to follow: a cue of subtitles that is too long ends late rather than faster.
_MOST_HASTE: Final = 1.5


class JobFailedError(Exception):
    """Raised where a job cannot go on. `reason`: what its owner is told."""

    def __init__(self, reason: JobError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class StoppedError(Exception):
    """Raised where a job is to be cancelled, by another process perhaps."""


async def work(jobs: JobService, job: Job) -> None:
    """Speak the next chapter of a job that is in progress, or put together those there are.

    Raises JobFailedError and ServiceError where the job cannot go on.
    """
    folder = jobs.folder(job.id)
    try:
        document = await asyncio.to_thread(load_document, folder)
        if job.chapter < job.chapters:
            await _ChapterWork(jobs, job, document).run()
        else:
            await _finish(jobs, job, document)
    except StoppedError:
        return
    except FileNotFoundError as error:
        raise errors.StorageError(f"A file of the job is missing: {Path(error.filename or '').name}.") from error
    except OSError as error:
        raise storage_error("The job cannot be stored", error) from error


class _ChapterWork:
    """Work on one chapter."""

    def __init__(self, jobs: JobService, job: Job, document: Document) -> None:
        self._jobs = jobs
        self._job = job
        self._folder = jobs.folder(job.id) / results.CHAPTERS
        self._chapter = document.chapters[job.chapter]
        self._timed = document.timed
        self._characters = sum(len(each.text) for chapter in document.chapters for each in script(chapter))
        self._failed_in_a_row = 0

    async def run(self) -> None:
        """Speak the passages that are missing, then write the chapter's file."""
        job = self._job
        speech = await _patiently(partial(self._jobs.speech.prepare, job.options.speech()))
        passages = script(self._chapter)
        rate = speech.synthesizer.sample_rate
        journal = await asyncio.to_thread(ChapterJournal, self._folder, job.chapter)
        try:
            for index in range(len(journal.records), len(passages)):
                await self._speak(speech, journal, passages, index)
            totals = self._totals(journal.records, rate)
        finally:
            await asyncio.to_thread(journal.close)
        await asyncio.to_thread(results.finish_chapter, self._folder, job, self._chapter, rate, timed=self._timed)
        size = await asyncio.to_thread(results.folder_size, self._jobs.folder(job.id))
        await self._update(
            lambda each: replace(each, chapter=job.chapter + 1, before=totals, totals=totals, bytes=size)
        )

    async def _speak(
        self, speech: PreparedSpeech, journal: ChapterJournal, passages: tuple[Passage, ...], index: int
    ) -> None:
        """Speak one passage, and note how far the job is."""
        while self._jobs.speech.admission.full:  # noqa: ASYNC110  (it follows from many streams)
            await asyncio.sleep(_PAUSE)
        passage, rate = passages[index], speech.synthesizer.sample_rate
        failure: JobError | None = None
        try:
            spoken = await self._tried(speech, journal, passage)
            if self._timed:
                spoken = await self._in_time(speech, journal, passages, index, spoken)
            elif index + 1 < len(passages):
                await asyncio.to_thread(journal.write, results.silence(results.PARAGRAPH_GAP, rate))
        except (errors.InvalidRequestError, errors.ModelFailedError) as error:
            await asyncio.to_thread(journal.rewind)
            spoken = []
            if not isinstance(error, errors.NothingToSpeakError):
                failure = JobError(error.code, error.message, error.body()["param"], self._line(index))
        offset = journal.length / rate
        shown = [Cue(cue.start + offset, cue.end + offset, cue.text) for cue in cues(spoken)]
        await asyncio.to_thread(journal.finish, len(passage.text), shown, failed=failure is not None)
        metrics.job_passages.labels("spoken" if failure is None else "failed").inc()
        await self._note(journal, rate, failure)

    async def _tried(self, speech: PreparedSpeech, journal: ChapterJournal, passage: Passage) -> list[SpokenChunk]:
        """Speak a passage, again where the model fails. Raises ServiceError."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await _patiently(partial(self._once, speech, journal, passage.text))
            except errors.ModelFailedError:
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(_FIRST_WAIT)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, speech: PreparedSpeech, journal: ChapterJournal, text: str) -> list[SpokenChunk]:
        """Write the audio of a passage to the journal; return its chunks without their samples. Raises ServiceError."""
        await asyncio.to_thread(journal.rewind)
        service, found = self._jobs.speech, []
        labels = metrics.Labels(speech.model, "jobs", streaming=False)
        admitted = service.admission.open_background(owner_of(self._job))
        stream = SpeechStream(service, speech, Timeline(), labels, admitted, priority=Priority.BACKGROUND)
        outcome: metrics.Outcome = "failed"
        try:
            stream.feed(text)
            stream.finish()
            async for chunk in stream:
                stream.delivered(chunk)
                await asyncio.to_thread(journal.write, chunk.pcm)
                found.append(replace(chunk, pcm=chunk.pcm[:0]))
            outcome = "ok"
        finally:
            stream.close(outcome)
        return found

    async def _in_time(
        self,
        speech: PreparedSpeech,
        journal: ChapterJournal,
        passages: tuple[Passage, ...],
        index: int,
        spoken: list[SpokenChunk],
    ) -> list[SpokenChunk]:
        """Speak a cue faster that would still be spoken when the next one begins. Raises ServiceError."""
        start = passages[index].start or 0.0
        following = passages[index + 1].start if index + 1 < len(passages) else None
        room = max(0.0, (following if following is not None else float("inf")) - start)
        length = sum(chunk.duration for chunk in spoken)
        if not spoken or length <= room:
            return spoken
        haste = min(length / room if room else _MOST_HASTE, _MOST_HASTE)
        faster = replace(speech, speed=min(speech.speed * haste, MAX_SPEED))
        return await self._tried(faster, journal, passages[index])

    def _line(self, index: int) -> int:
        """Return the number of a passage in the job, from 1."""
        return self._job.before.completed + self._job.before.failed + index + 1

    def _totals(self, records: list[Record], rate: int) -> Totals:
        before = self._job.before
        failed = sum(record.failed for record in records)
        return Totals(
            before.completed + len(records) - failed,
            before.failed + failed,
            before.characters + sum(record.characters for record in records),
            before.seconds + (records[-1].end / rate if records else 0.0),
        )

    async def _note(self, journal: ChapterJournal, rate: int, failure: JobError | None) -> None:
        """Tell how far the job is. Raises JobFailedError where it cannot go on."""
        totals = self._totals(journal.records, rate)
        size = self._job.bytes + journal.bytes

        def note(each: Job) -> Job:
            each = each if failure is None else each.with_error(failure)
            progress = totals.characters / max(1, self._characters)
            return replace(each, totals=totals, progress=min(1.0, progress), bytes=size, starts=0)

        await self._update(note)
        self._failed_in_a_row = 0 if failure is None else self._failed_in_a_row + 1
        if failure is not None and self._failed_in_a_row >= _FAILED_IN_A_ROW:
            reason = f"{_FAILED_IN_A_ROW} passages in a row could not be spoken. The last one: {failure.message}"
            raise JobFailedError(replace(failure, message=reason))
        if (over := await asyncio.to_thread(self._jobs.over_quota, self._job)) is not None:
            raise JobFailedError(JobError("storage_full", over))

    async def _update(self, change: Callable[[Job], Job]) -> None:
        await update(self._jobs, self._job.id, change)


async def update(jobs: JobService, job: str, change: Callable[[Job], Job]) -> Job:
    """Change a job that is worked on; return it. Raises StoppedError where it is to be cancelled, or is gone."""
    changed = await jobs.change(job, lambda each: None if each.ended or each.status == "cancelling" else change(each))
    if changed is None or changed.ended or changed.status == "cancelling":
        raise StoppedError
    return changed


async def _finish(jobs: JobService, job: Job, document: Document) -> None:
    """Write the results of a job whose chapters are whole. Raises JobFailedError, OSError."""
    if job.totals.failed >= job.passages or not job.totals.seconds:
        raise JobFailedError(job.errors[0] if job.errors else JobError("nothing_to_speak", "No passage was spoken."))
    job = await update(jobs, job.id, lambda each: each if each.status == "finalizing" else each.to("finalizing"))
    files = await results.write(jobs.folder(job.id), jobs.results(job.id), job, document)
    size = await asyncio.to_thread(results.folder_size, jobs.folder(job.id))
    done = await update(jobs, job.id, lambda each: jobs.ended(each, "completed", files=files, bytes=size, progress=1.0))
    metrics.jobs_finished.labels("completed").inc()
    log.info("job %s is done: %.0f seconds of audio", done.id, done.totals.seconds)


async def _patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `attempt`, which is made again while the server is busy, or the key has used up its quota.

    Raises ServiceError for what does not pass.
    """
    wait, waited = _FIRST_WAIT, 0.0
    while True:
        try:
            return await attempt()
        except errors.QuotaExceededError as error:
            seconds = float(error.headers().get("retry-after", _FIRST_WAIT))
        except errors.ModelAbsentError:
            raise
        except errors.UnavailableError:
            if waited >= _UNAVAILABLE_SECONDS:
                raise
            seconds, wait = wait, min(2 * wait, _LONGEST_WAIT)
            waited += seconds
        await asyncio.sleep(seconds)
