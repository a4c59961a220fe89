"""One turn of work on a job: speak its next chapter, or a part of it, or put its chapters together."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from app import errors
from app.audio.subtitles import Cue, cues, without_marks
from app.books import results
from app.books.audiobook.dub import MAX_SPEED, dub
from app.books.documents.lines import DamagedDocumentError
from app.books.documents.types import Document
from app.books.journal import ChapterJournal
from app.books.service import JobService, load_document, script
from app.books.types import Job, JobError, Totals
from app.engine.admission import background
from app.engine.jobs import Priority
from app.observability import metrics
from app.speech.options import PreparedSpeech
from app.speech.sentence import SpokenChunk
from app.speech.stream import SpeechStream
from app.speech.variants import Variants
from app.text.sentence_buffer import SentenceBuffer
from app.text.types import PLAIN
from app.threads import JOBS
from models.contract import Pcm
from models.timeline import Timeline

log = logging.getLogger(__name__)

T = TypeVar("T")

# Times that a passage is tried on which the model fails.
_ATTEMPTS: Final = 3
# Passages in a row that cannot be spoken: the next ones cannot, either.
_FAILED_IN_A_ROW: Final = 10
# Seconds between two attempts of what cannot be done now: they double, up to the second number.
_FIRST_WAIT, _MAX_WAIT_SECONDS = 1.0, 60.0
# Seconds for which a server that cannot serve is tried.
_UNAVAILABLE_SECONDS: Final = 3_600.0
# Seconds after which the jobs of another key have their turn, if there are any.
_TURN: Final = 5.0
# Characters that are spoken before a long passage gives way to others: some seconds of work.
PART: Final = 500
# Cues that are read at a time.
_CUES: Final = 100
# Seconds between two looks whether the live streams leave room.
_PAUSE: Final = 0.5


class JobFailedError(Exception):
    """Raised where a job cannot go on. `reason`: what its owner is told."""

    def __init__(self, reason: JobError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class PostponedError(Exception):
    """Raised where a job cannot go on for `seconds`, and jobs of another key can."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class StoppedError(Exception):
    """Raised where a job is to be cancelled, by another process perhaps."""


async def work(jobs: JobService, job: Job) -> None:
    """Speak the next chapter of a job that is in progress, or a part of it, or put together those there are.

    Raises JobFailedError and ServiceError where the job cannot go on.
    """
    folder = jobs.folder(job.id)
    try:
        document = await JOBS.run(load_document, folder)
        if job.chapter < job.chapters:
            with background():
                # On a thread: a document may have very many passages.
                chapter = await JOBS.run(_ChapterWork, jobs, job, document)
                await chapter.run()
        else:
            await _finish(jobs, job, document)
    except StoppedError:
        return
    except DamagedDocumentError as error:
        raise errors.StorageError("The document of the job is damaged.") from error
    except FileNotFoundError as error:
        raise errors.StorageError(f"A file of the job is missing: {Path(error.filename or '').name}.") from error
    except OSError as error:
        raise errors.storage_error("The job cannot be stored", error) from error


class _ChapterWork:
    """Work on one chapter."""

    def __init__(self, jobs: JobService, job: Job, document: Document) -> None:
        self._jobs = jobs
        self._job = job
        self._folder = jobs.folder(job.id) / results.CHAPTERS
        self._document = document
        self._passages = script(document.chapters[job.chapter])
        self._characters = sum(len(each.text) for chapter in document.chapters for each in script(chapter))
        self._failed_in_a_row = 0
        self._until = 0.0
        # Voice of the last mark in the passage under way.
        self._voice: str | None = None

    async def run(self) -> None:
        """Speak the passages that are missing, then write the chapter's file."""
        job = self._job
        speech = await self._patiently(partial(self._jobs.speech.prepare, job.options.speech()))
        rate = speech.synthesizer.sample_rate
        # A job that is cancelled while the thread opens the files has no journal yet, and closes them all the same.
        opened = ExitStack()
        try:
            journal = await JOBS.run(lambda: opened.enter_context(ChapterJournal(self._folder, job.chapter)))
            self._until = time.monotonic() + _TURN
            speak = self._dub if self._document.timed else self._read
            if not await speak(speech, journal):
                return
            totals = self._totals(journal, rate)
            silence = await JOBS.run(self._silence_at_end, journal, rate)
            # Bytes are counted before they are written.
            needed = job.bytes + journal.bytes + silence
            await self._update(lambda each: replace(each, bytes=needed))
            await self._check_quota()
        finally:
            await JOBS.run(opened.close)
        pause = max(self._jobs.speech.settings.pauses.values()) / job.options.speed
        await JOBS.run(results.finish_chapter, self._folder, job, self._document, rate, pause)
        size = await JOBS.run(results.folder_size, self._jobs.folder(job.id))
        await self._update(
            lambda each: replace(each, chapter=job.chapter + 1, before=totals, totals=totals, bytes=size)
        )

    async def _read(self, speech: PreparedSpeech, journal: ChapterJournal) -> bool:
        """Speak passages one after the other, long ones in parts; return whether the chapter is whole."""

        async def write(pcm: Pcm) -> None:
            await JOBS.run(journal.write, pcm)

        passage = ""
        if begin := journal.part:
            variants = Variants(self._jobs.speech, speech)
            passage = await self._passage(journal.passages)
            spoken_before = passage[:begin]
            with suppress(errors.InvalidRequestError):  # what is said next has the same error
                await self._patiently(partial(variants.parts, spoken_before, PLAIN))
            self._voice = variants.voice
        while journal.passages < len(self._passages):
            begin = journal.part
            if not begin:
                passage = await self._passage(journal.passages)
            self._voice = self._voice if begin else None
            text = first_part(passage[begin : begin + 2 * PART], speech.language)
            spoken, failure = await self._tried(speech, text, write, journal.rewind)
            offset = journal.length / speech.synthesizer.sample_rate
            shown = [cue.later(offset) for cue in cues(spoken)]
            more = begin + len(text) < len(passage)
            await JOBS.run(journal.finish, len(text), shown, failed=failure is not None, more=more)
            await self._note(journal, speech, failure)
            if await self._gives_way(journal):
                return False
        return True

    async def _passage(self, number: int) -> str:
        """Return a passage, which is read once for all its parts: it may have millions of characters."""
        return (await JOBS.run(self._passages.__getitem__, number)).text

    async def _dub(self, speech: PreparedSpeech, journal: ChapterJournal) -> bool:
        """Speak cues, each at its time; return whether the track is whole."""
        rate = speech.synthesizer.sample_rate
        failure: JobError | None = None
        shown = ""

        async def synthesize(text: str, speed: float) -> Pcm:
            nonlocal failure, shown
            self._voice = None
            pieces: list[Pcm] = []

            async def keep(pcm: Pcm) -> None:
                pieces.append(pcm)

            spoken, failed = await self._tried(speech.at_rate(speed), text, keep, pieces.clear)
            if speed == 1.0:  # the first attempt; a faster one that fails changes nothing
                failure = failed
            if not pieces or failed is not None:
                return np.zeros(0, np.float32)
            shown = " ".join(without_marks(chunk.text)[0] for chunk in spoken if chunk.text and chunk.last)
            return np.concatenate(pieces)

        fastest = MAX_SPEED if speech.synthesizer.changes_speed else 1.0
        while (first := journal.passages) < len(self._passages):
            # One cue more than are spoken: it ends the time of the last one.
            given = [
                Cue(each.start or 0.0, each.end or 0.0, each.text) for each in self._passages[first : first + _CUES + 1]
            ]
            dubbing = dub(given, synthesize, rate, max_speed=fastest, position=journal.position)
            async with aclosing(dubbing):
                async for dubbed in dubbing:
                    await JOBS.run(journal.write, dubbed.pcm)
                    cue = [replace(dubbed.cue, text=shown)] if dubbed.pcm.size else []
                    characters = len(dubbed.cue.text)
                    await JOBS.run(journal.finish, characters, cue, failed=failure is not None, silence=dubbed.silence)
                    await self._note(journal, speech, failure)
                    if await self._gives_way(journal):
                        return False
                    if journal.passages == first + _CUES:
                        break
        return True

    async def _gives_way(self, journal: ChapterJournal) -> bool:
        """Return whether the turn is over before the chapter is whole, and another key waits for one."""
        if time.monotonic() < self._until or journal.passages >= len(self._passages):
            return False
        return await self._jobs.others_wait(self._job)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, made again while the server is busy, or the key has used up its quota.

        Raises ServiceError for what does not pass, PostponedError where another key waits for its turn meanwhile.
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
                seconds, wait = wait, min(2 * wait, _MAX_WAIT_SECONDS)
                waited += seconds
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                if await self._jobs.others_wait(self._job):
                    raise PostponedError(left)
                await asyncio.sleep(min(left, _FIRST_WAIT))

    async def _tried(
        self, speech: PreparedSpeech, text: str, write: Callable[[Pcm], Awaitable[None]], rewind: Callable[[], None]
    ) -> tuple[list[SpokenChunk], JobError | None]:
        """Speak a passage, again where the model fails.

        Args:
            speech: voice and speed.
            text: the passage.
            write: takes its samples.
            rewind: drops those that were written, for another attempt.

        Returns:
            Its chunks without their samples, and why it could not be spoken, if so.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._patiently(partial(self._once, speech, text, write, rewind)), None
            except errors.NothingToSpeakError:
                return [], None
            except (errors.InvalidRequestError, errors.ModelFailedError) as error:
                if attempt < _ATTEMPTS and isinstance(error, errors.ModelFailedError):
                    await asyncio.sleep(_FIRST_WAIT)
                    continue
                await JOBS.run(rewind)
                return [], JobError(error.code, error.message, error.body()["param"])
        raise AssertionError("the last attempt returns")

    async def _once(
        self, speech: PreparedSpeech, text: str, write: Callable[[Pcm], Awaitable[None]], rewind: Callable[[], None]
    ) -> list[SpokenChunk]:
        """Speak a passage once. Raises ServiceError."""
        while self._jobs.speech.admission.full:  # noqa: ASYNC110  (it follows from many streams)
            await asyncio.sleep(_PAUSE)
        await JOBS.run(rewind)
        service, found = self._jobs.speech, []
        labels = metrics.Labels(speech.model, "jobs", streaming=False)
        admitted = service.admission.open_background(self._jobs.client_of(self._job))
        variants = Variants(service, speech, self._voice)
        stream = SpeechStream(
            service, speech, Timeline(), labels, admitted, variants=variants, priority=Priority.BACKGROUND
        )
        outcome: metrics.Outcome = "failed"
        try:
            stream.feed(text)
            stream.finish()
            async for chunk in stream:
                stream.delivered(chunk)
                await write(chunk.pcm)
                found.append(chunk.without_audio())
            outcome = "ok"
        finally:
            stream.close(outcome)
        self._voice = variants.voice
        return found

    def _totals(self, journal: ChapterJournal, rate: int) -> Totals:
        before = self._job.before
        return Totals(
            before.completed + journal.passages - journal.failed,
            before.failed + journal.failed,
            before.characters + journal.characters,
            before.seconds + journal.position / rate,
        )

    async def _note(self, journal: ChapterJournal, speech: PreparedSpeech, failure: JobError | None) -> None:
        """Tell how far the job is after a passage. Raises JobFailedError where it cannot go on."""
        totals = self._totals(journal, speech.synthesizer.sample_rate)
        size = self._job.bytes + journal.bytes
        metrics.job_passages.labels("spoken" if failure is None else "failed").inc()

        def note(each: Job) -> Job:
            if failure is not None:
                line = totals.completed + totals.failed + bool(journal.part)
                each = each.with_error(replace(failure, line=line))
            progress = totals.characters / max(1, self._characters)
            return replace(each, totals=totals, progress=min(1.0, progress), bytes=size, starts=0)

        await self._update(note)
        self._failed_in_a_row = 0 if failure is None else self._failed_in_a_row + 1
        if failure is not None and self._failed_in_a_row >= _FAILED_IN_A_ROW:
            reason = f"{_FAILED_IN_A_ROW} passages in a row could not be spoken. The last one: {failure.message}"
            raise JobFailedError(replace(failure, message=reason))
        await self._check_quota()

    async def _check_quota(self) -> None:
        if (over := await JOBS.run(self._jobs.over_quota, self._job)) is not None:
            raise JobFailedError(JobError("storage_full", over))

    def _silence_at_end(self, journal: ChapterJournal, rate: int) -> int:
        """Return the bytes of the silence after the last cue, uncompressed."""
        end = results.track_end(self._document.chapters[self._job.chapter])
        return 2 * max(0, round(end * rate) - journal.position)

    async def _update(self, change: Callable[[Job], Job]) -> None:
        await update(self._jobs, self._job.id, change)


async def update(jobs: JobService, job: str, change: Callable[[Job], Job]) -> Job:
    """Change a job that is worked on; return it. Raises StoppedError where it is to be cancelled, or is gone."""
    applied = False

    def change_open(each: Job) -> Job | None:
        nonlocal applied
        applied = not each.ended and each.status != "cancelling"
        return change(each) if applied else None

    changed = await jobs.change(job, change_open)
    if changed is None or not applied:
        raise StoppedError
    return changed


async def _finish(jobs: JobService, job: Job, document: Document) -> None:
    """Write the results of a job whose chapters are whole. Raises JobFailedError, OSError."""
    if job.totals.failed >= job.passages or not job.totals.seconds:
        raise JobFailedError(job.errors[0] if job.errors else JobError("nothing_to_speak", "No passage was spoken."))
    job = await update(jobs, job.id, lambda each: each if each.status == "finalizing" else each.to("finalizing"))
    folder, place = jobs.folder(job.id), jobs.results(job.id)
    files = await JOBS.run(results.write, folder / results.CHAPTERS, place, job, document)
    size = await JOBS.run(results.folder_size, place)
    done = await update(jobs, job.id, lambda each: jobs.ended(each, "completed", files=files, bytes=size, progress=1.0))
    metrics.jobs_finished.labels("completed").inc()
    await JOBS.run(shutil.rmtree, folder / results.CHAPTERS, ignore_errors=True)
    log.info("job %s is done: %.0f seconds of audio", done.id, done.totals.seconds)


def first_part(text: str, language: str) -> str:
    """Return the first sentences of a passage, at most PART characters, or all of a short one."""
    if len(text) <= PART:
        return text
    sentences = SentenceBuffer(language, limit=PART).feed(text)
    ends = list(accumulate(map(len, sentences)))
    return text[: max((end for end in ends if end <= PART), default=ends[0])]
