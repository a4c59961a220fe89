"""Jobs of one server: take them, list them, cancel them, keep their results for a while. A job belongs to its key."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from app import errors
from app.books.documents.lines import PassageLines, from_lines, to_lines
from app.books.documents.reader import ReaderProcess, read_document
from app.books.documents.types import Chapter, Document, DocumentError, Passage
from app.books.store import JobStore
from app.books.types import ENDED, MAX_NAME, STATUSES, Job, JobFile, JobOptions
from app.config import Settings
from app.engine.admission import Client, client, key_name
from app.engine.spool import Spool
from app.engine.turns import Turns
from app.observability import metrics
from app.speech.service import SpeechService
from app.threads import DOCUMENTS, JOBS, REQUESTS
from models.timeline import Timeline

log = logging.getLogger(__name__)

DOCUMENT: Final = "document.jsonl"
"""File of the document, in the folder of its job."""

# Bytes of an upload beside its document.
FORM_BYTES: Final = 1 << 20
_ID_BYTES: Final = 12
# Characters of a document by which its language is told.
_SAMPLE: Final = 2_000
_READERS: Final = 2
# Documents of one key, and of all, that wait to be read or are read.
_MAX_WAITING_OF_KEY, _MAX_WAITING = 16, 64
# Seconds after which a change that another process made is seen.
POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class NewJob:
    """Request for a job. `name` is the name of the document's file."""

    name: str
    options: JobOptions
    metadata: dict[str, str]


class KeyRevokedError(Exception):
    """Raised for a job whose key was taken out of the file of keys."""


class JobService:
    """Jobs in a directory, which is made with the first one. For the event loop."""

    def __init__(self, settings: Settings, speech: SpeechService, directory: Path) -> None:
        """Make the service.

        Args:
            settings: the deployment's choices.
            speech: checks the options of a job.
            directory: it holds the list of jobs, and a folder for each.
        """
        self.settings = settings
        self.speech = speech
        self.directory = directory
        self.store = JobStore(directory)
        # Uploads that come at once: two of the largest size.
        self.spool = Spool(2 * (settings.max_document_bytes + FORM_BYTES))
        # Returns the client of a key by its name; None: no key is needed.
        self.client_named: Callable[[str], Client | None] | None = None
        # Stops the work on a job of that id, if this process works on it.
        self.on_cancel: Callable[[str], None] = lambda job: None
        # Jobs that cannot go on before a monotonic time.
        self.postponed: dict[str, float] = {}
        self._adding = asyncio.Lock()
        # A document takes memory, and a processor: keys take turns, and each has one document read at a time.
        self._reading = Turns(_READERS)
        # Number of the last change of any job in this process.
        self.version = 0
        self._changed = asyncio.Event()
        # Jobs that clients follow: version and time of the last read, and the read.
        self._followed: dict[str, tuple[int, float, asyncio.Task[Job]]] = {}

    def close(self) -> None:
        """Close the list."""
        self.store.close()

    def client_of(self, job: Job) -> Client | None:
        """Return the client for whom a job is done, with its limits of now. Raises KeyRevokedError."""
        if job.owner is None:
            return None
        if self.client_named is None:
            return None if job.client is None else Client(**job.client)
        result = self.client_named(job.owner)
        if result is None:
            raise KeyRevokedError
        return result

    async def others_wait(self, job: Job) -> bool:
        """Return whether a job of another key could be worked on now, or one that waits is to be cancelled."""
        ready = self.ready(await JOBS.run(self.store.open_jobs))
        return any(each.owner != job.owner or each.status == "cancelling" for each in ready)

    def ready(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that are not postponed."""
        now = time.monotonic()
        return [job for job in jobs if self.postponed.get(job.id, 0.0) <= now or job.status == "cancelling"]

    # Changes, which readers wait for.

    def notify(self) -> None:
        """Wake those who wait for a change of any job."""
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self, version: int, seconds: float) -> None:
        """Wait for a change of any job in this process after `version`, at most so many seconds."""
        if self.version != version:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def change(self, job: str, change: Callable[[Job], Job | None]) -> Job | None:
        """Change a job as `JobStore.change` does, and tell those who wait."""
        changed = await REQUESTS.run(self.store.change, job, change)
        self.notify()
        return changed

    # Requests.

    def check_enabled(self) -> None:
        """Raise NotFoundError where the settings allow no jobs."""
        if not self.settings.jobs:
            raise errors.NotFoundError("This server takes no jobs (setting 'jobs').")

    async def create(self, new: NewJob, data: bytes) -> Job:
        """Keep a job for the request's key. It takes a slot once it is the document's turn to be read.

        Raises ServiceError: options that cannot be used, a document that cannot be read, no room.
        """
        self.check_enabled()
        await self._check_room(len(data))
        waiting = self._reading.waiting
        if waiting[key_name()] >= _MAX_WAITING_OF_KEY or waiting.total() >= _MAX_WAITING:
            raise errors.OverloadedError("Many documents wait to be read already; try again shortly.")
        async with self._reading.place():
            with self.speech.admission.admit():
                return await self._create(new, data)

    async def _create(self, new: NewJob, data: bytes) -> Job:
        options = await self._resolve(new.options)
        document = await self._read(data, new.name)
        options = await self._with_language(new.options, options, document)
        if not await DOCUMENTS.run(_holds_text, document):
            raise errors.InvalidDocumentError("The document holds nothing that can be spoken.")
        who = client.get()
        job = Job(
            id=f"job_{secrets.token_hex(_ID_BYTES)}",
            owner=key_name(),
            client=None if who is None else asdict(who),
            name=new.name[:MAX_NAME],
            options=options,
            metadata=new.metadata,
            created=int(time.time()),
            title=(options.title or document.title or Path(new.name).stem)[:MAX_NAME],
            chapters=len(document.chapters),
            passages=sum(len(script(chapter)) for chapter in document.chapters),
            times={"validating": int(time.time())},
            warnings=document.warnings,
        )
        try:
            size = await DOCUMENTS.run(write_document, self.folder(job.id), document)
            async with self._adding:
                await self._check_room(size)
                job = replace(job, bytes=size)
                await REQUESTS.run(self.store.add, job)
        except OSError as error:
            await self.discard(job.id)
            raise errors.storage_error("The document cannot be stored", error) from error
        except BaseException:
            await self.discard(job.id)
            raise
        self.notify()
        return job

    async def jobs(self, after: str | None, limit: int) -> list[Job]:
        """Return the jobs that the request's key may see, the newest first, those that follow the job `after`.

        Raises NotFoundError where the key may see no job `after`.
        """
        self.check_enabled()
        if after is not None:
            await self.get(after, param="after")
        result = await REQUESTS.run(self.store.listing, key_name(), after, limit, all_owners=_is_admin())
        return [job for job in result if job.expires != 0]

    async def get(self, job: str, *, param: str | None = None) -> Job:
        """Return a job. Raises NotFoundError if the request's key may see none of that id; an admin sees all."""
        self.check_enabled()
        result = await REQUESTS.run(self.store.get, job)
        # One that was removed while it is worked on has `expires` 0.
        if result is None or result.expires == 0 or not (_is_admin() or result.owner in (None, key_name())):
            raise errors.NotFoundError(f"There is no job '{job[:40]}'.", param=param)
        return result

    async def follow(self, job: str) -> Job:
        """Return a job as `get`. Those who follow a job share what one of them reads, at most POLL_SECONDS old."""
        known, now = self._followed.get(job), time.monotonic()
        if known is None or known[0] != self.version or now - known[1] > POLL_SECONDS:
            reading = asyncio.create_task(self.get(job))
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            known = self._followed[job] = self.version, now, reading
        return await asyncio.shield(known[2])

    async def cancel(self, job: str) -> Job:
        """Stop a job; one that has ended stays as it is. Raises NotFoundError, PermissionDeniedError."""
        result = await self.get(job)
        if result.owner != key_name() and not _is_admin():
            raise errors.PermissionDeniedError(f"Job '{job}' was made without a key.")
        if not result.ended:
            result = await self.change(job, _cancelled) or result
            self.on_cancel(job)
        return result

    async def remove(self, job: str) -> None:
        """Stop and forget a job, with its files. Raises NotFoundError, PermissionDeniedError."""
        try:
            found = await self.cancel(job)
        except errors.StorageFullError:
            # Its files take the room that the list needs.
            self.on_cancel(job)
            await self.discard(job)
            found = await self.cancel(job)
        if found.ended:
            await self.forget(job)
        else:
            # The process that works on it forgets it.
            await self.change(job, lambda each: replace(each, expires=0))

    async def file(self, job: str, name: str) -> tuple[Path, JobFile]:
        """Return the place of a result. Raises NotFoundError."""
        found = await self.get(job)
        if found.owner not in (None, key_name()):
            raise errors.PermissionDeniedError(f"Job '{job}' belongs to another key, which alone has its files.")
        for file in found.files:
            path = self.results(job) / file.name
            if file.name == name and await REQUESTS.run(path.is_file):
                return path, file
        has = ", ".join(file.name for file in found.files) or "none"
        raise errors.NotFoundError(f"Job '{job}' has no file '{name[:100]}'; it has {has}.")

    # Places.

    def folder(self, job: str) -> Path:
        """Return the folder of a job."""
        return self.directory / job

    def results(self, job: str) -> Path:
        """Return the folder of its results."""
        return self.folder(job) / "results"

    async def discard(self, job: str) -> None:
        """Delete the files of a job."""
        await REQUESTS.run(shutil.rmtree, self.folder(job), ignore_errors=True)

    async def forget(self, job: str) -> None:
        """Delete a job with its files."""
        await self.discard(job)
        await REQUESTS.run(self.store.remove, job)
        self._followed.pop(job, None)
        self.postponed.pop(job, None)
        self.notify()

    # Checks.

    async def _read(self, data: bytes, name: str) -> Document:
        """Return a document. The process that reads it ends with the request. Raises InvalidDocumentError, OSError."""
        process = ReaderProcess()
        limit = self.settings.max_document_bytes
        reading = asyncio.create_task(DOCUMENTS.run(read_document, data, name, max_bytes=limit, process=process))
        try:
            return await asyncio.shield(reading)
        except DocumentError as error:
            raise errors.InvalidDocumentError(str(error)) from None
        except asyncio.CancelledError:
            process.kill()
            await asyncio.wait({reading})
            raise

    async def _resolve(self, options: JobOptions) -> JobOptions:
        """Return `options` with the names of the model and the voice that they mean now. Raises ServiceError.

        A default that changes must not change a job that has begun.
        """
        speech = await self.speech.prepare(options.speech())
        return options.model_copy(update={"model": speech.model, "voice": speech.voice})

    async def _with_language(self, asked: JobOptions, options: JobOptions, document: Document) -> JobOptions:
        """Return `options` with the language of the document where none is asked for. Raises ServiceError."""
        if options.translate_to is not None:
            if options.source is None or options.source.strip().lower() == "auto":
                return options.model_copy(update={"source": await self._source(options, document)})
            return options
        if asked.lang is not None or asked.voice is not None or not document.language:
            return options
        try:
            return await self._resolve(asked.model_copy(update={"lang": document.language}))
        except errors.UnsupportedLanguageError as error:
            raise errors.UnsupportedLanguageError(
                f"The document says that its language is '{document.language[:40]}'. {error.message} "
                "A 'lang' or a 'voice' in the request goes before it.",
                param="lang",
            ) from None

    async def _source(self, options: JobOptions, document: Document) -> str:
        """Return the language to translate from: a passage alone may be too short to tell. Raises ServiceError."""
        translation = self.speech.translation
        route = await translation.route(options.translate_model, options.translate_to or "", "translate_to")
        if document.language:
            with suppress(errors.UnsupportedLanguageError):
                return translation.language(document.language, route.translator, "source")
        passages = (passage.text for chapter in document.chapters for passage in chapter.passages)
        # Each passage has a character or more.
        sample = " ".join(itertools.islice(passages, _SAMPLE))
        guess = (await translation.detect(sample[:_SAMPLE], 1, Timeline()))[0]
        return translation.language(guess.language, route.translator, "source")

    async def _check_room(self, size: int) -> None:
        """Raise QuotaExceededError or StorageFullError if a job of so many bytes has no room."""
        settings, owner = self.settings, key_name()
        used = await REQUESTS.run(self.store.used)
        count, held = used.get(owner, (0, 0))
        if owner is not None and settings.key_jobs and count >= settings.key_jobs:
            raise errors.QuotaExceededError(f"This key has {count} jobs already; delete one first.")
        if owner is not None and settings.key_jobs_bytes and held + size > settings.key_jobs_bytes:
            raise errors.QuotaExceededError(
                f"The jobs of this key have {held} bytes; at most {settings.key_jobs_bytes} are kept. Delete one first."
            )
        if sum(count for count, _ in used.values()) >= settings.max_jobs:
            raise errors.OverloadedError(f"{settings.max_jobs} jobs are kept already; delete one first.")
        total = sum(held for _, held in used.values())
        if total + size > settings.jobs_bytes:
            raise errors.StorageFullError(
                f"The jobs have {total} bytes; at most {settings.jobs_bytes} are kept. Delete one first."
            )

    def over_quota(self, job: Job) -> str | None:
        """Return why a job may not have the bytes that it has; None: it may. Blocks."""
        settings = self.settings
        used = self.store.used()
        held = used.get(job.owner, (0, 0))[1]
        if job.owner is not None and settings.key_jobs_bytes and held > settings.key_jobs_bytes:
            return f"The jobs of this key need more than the {settings.key_jobs_bytes} bytes that are kept."
        if sum(held for _, held in used.values()) > settings.jobs_bytes:
            return f"The jobs need more than the {settings.jobs_bytes} bytes that are kept."
        return None

    # The end of jobs.

    def ended(self, job: Job, status: str, **changes: object) -> Job:
        """Return a job that ends now, and is kept for `jobs_seconds`."""
        if status not in ENDED:
            raise ValueError(status)
        # One that was removed while it was worked on stays so.
        expires = 0 if job.expires == 0 else int(time.time() + self.settings.jobs_seconds)
        return replace(job.to(status, expires=expires), **changes)  # type: ignore[arg-type]

    async def sweep(self) -> None:
        """Delete the results of jobs that have expired, and later the jobs, and folders that no job has."""
        now = time.time()
        for job in await REQUESTS.run(self.store.ended_jobs):
            if job.expires is None or job.expires > now:
                continue
            if job.status == "completed" and job.expires:
                await self.discard(job.id)
                await self.change(job.id, lambda each: self.ended(each, "expired", files=(), bytes=0))
                metrics.jobs_finished.labels("expired").inc()
            else:
                await self.forget(job.id)
        counts = await REQUESTS.run(self.store.counts)
        for status in STATUSES:
            metrics.jobs.labels(status).set(counts.get(status, 0))
        used = await REQUESTS.run(self.store.used)
        metrics.job_storage.set(sum(held for _, held in used.values()))


def _cancelled(job: Job) -> Job | None:
    return None if job.ended or job.status == "cancelling" else job.to("cancelling")


def script(chapter: Chapter) -> PassageLines:
    """Return what is spoken of a chapter of a kept document: its title, and its passages."""
    assert isinstance(chapter.passages, PassageLines)  # noqa: S101  (`from_lines` made it)
    titled = _speakable(chapter.title) and chapter.passages[0].start is None
    return chapter.passages.after(Passage(chapter.title)) if titled else chapter.passages


def _holds_text(document: Document) -> bool:
    return any(_speakable(passage.text) for chapter in document.chapters for passage in chapter.passages)


def _speakable(text: str) -> bool:
    return any(map(str.isalnum, text))


def write_document(folder: Path, document: Document) -> int:
    """Write a document to the folder of a job; return its bytes. Blocks. Raises OSError."""
    folder.mkdir(parents=True)
    if document.cover is not None:
        (folder / "cover").write_bytes(document.cover)
    with (folder / DOCUMENT).open("wb") as file:
        file.writelines(to_lines(document))
        return file.tell() + len(document.cover or b"")


def load_document(folder: Path) -> Document:
    """Return the document of a job. Blocks. Raises OSError, DamagedDocumentError."""
    cover = folder / "cover"
    with (folder / DOCUMENT).open("rb") as file:
        return from_lines(file, cover.read_bytes() if cover.exists() else None)


def _is_admin() -> bool:
    who = client.get()
    return who is not None and who.admin
