"""Jobs of a key: a document to an audiobook. Take one, follow it, cancel it, fetch its files."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.books.schemas import (
    MAX_FIELD_BYTES,
    MAX_FIELDS,
    PATH,
    JobDeleted,
    JobForm,
    JobItem,
    JobList,
    job_item,
    read_job_form,
)
from app.books.service import POLL_SECONDS, JobService
from app.books.types import Job, JobFile
from app.errors import ServiceError, storage_error
from app.server.exchange import COMMENT_SECONDS, ClientGoneError, until_gone
from app.server.forms import read_form
from app.server.spooled_upload import spooled
from app.server.state import Services, services

log = logging.getLogger(__name__)

router = APIRouter()

# Characters of speech that an upload costs its key. Its text is paid for as it is spoken.
UPLOAD_CHARACTERS: Final = 1_000
# Seconds between two events at least.
_EVENT_SECONDS: Final = 0.2
_FORM: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": JobForm.model_json_schema()}}}
}


def _jobs(request: Request) -> JobService:
    jobs: JobService = request.app.state.jobs
    return jobs


@router.post(PATH, response_model=JobItem, openapi_extra=_FORM)
async def create(request: Request) -> Response:
    """Have a document made into an audiobook, after everything else that the server does."""
    app, jobs = services(request), _jobs(request)
    jobs.check_enabled()
    try:
        with spooled(request, jobs.spool) as counted:
            async with read_form(counted, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES) as form:
                new, upload = read_job_form(form)

                async def keep() -> Job:
                    return await jobs.create(new, await upload.read())

                # This pays. The document takes a slot when it is its turn to be read.
                with app.admission.admit(UPLOAD_CHARACTERS):
                    pass
                job = await until_gone(request.receive, app.admission.aborted(), keep())
    except (ClientDisconnect, ClientGoneError):
        return Response(status_code=400)  # the client has left
    except OSError as error:
        raise storage_error("The upload cannot be stored", error) from error
    return JSONResponse(job_item(job).model_dump(mode="json"))


@router.get(PATH)
async def listing(
    request: Request,
    after: Annotated[str | None, Query(max_length=100, description="id of a job: those that follow it")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="most jobs of a page")] = 20,
) -> JobList:
    """Return the jobs that the key may see, the newest first."""
    result = await _jobs(request).jobs(after, limit + 1)
    items = [job_item(job) for job in result[:limit]]
    return JobList(
        data=items,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
        has_more=len(result) > limit,
    )


@router.get(PATH + "/{job_id}")
async def job(request: Request, job_id: str) -> JobItem:
    """Return a job."""
    return job_item(await _jobs(request).get(job_id))


@router.post(PATH + "/{job_id}/cancel")
async def cancel(request: Request, job_id: str) -> JobItem:
    """Stop a job, whose files are deleted. One that has ended stays as it is."""
    return job_item(await _jobs(request).cancel(job_id))


@router.delete(PATH + "/{job_id}")
async def delete(request: Request, job_id: str) -> JobDeleted:
    """Stop and delete a job with its files."""
    await _jobs(request).remove(job_id)
    return JobDeleted(id=job_id)


@router.get(
    PATH + "/{job_id}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}, 204: {"description": "The job ended; no event is left."}},
)
async def events(request: Request, job_id: str) -> Response:
    """Follow a job by server-sent events until it ends. `Last-Event-ID` leaves out what was seen."""
    jobs = _jobs(request)
    result = await jobs.get(job_id)
    last = request.headers.get("last-event-id", "")
    seen = int(last) if last.isdecimal() and len(last) < 18 else 0
    if result.ended and result.revision <= seen:
        return Response(status_code=204)  # browsers then do not connect again
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")  # the head does not wait for the job
    return JobEvents(services(request), jobs, result, seen)


@router.get(
    PATH + "/{job_id}/files/{name}",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        206: {"description": "The range that was asked for"},
    },
)
async def file(request: Request, job_id: str, name: str) -> Response:
    """Return a result of a job, or a range of its bytes."""
    path, found = await _jobs(request).file(job_id, name)
    return ResultFile(services(request).settings.stall_seconds, path, found)


class ResultFile(FileResponse):
    """File whose reader is dropped when it reads nothing for so many seconds."""

    def __init__(self, stall_seconds: float, path: Path, found: JobFile) -> None:
        headers = {"cache-control": "private, no-cache"}
        super().__init__(path, headers=headers, media_type=found.media_type, filename=found.name)
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        started = False

        async def send_in_time(message: Message) -> None:
            nonlocal started
            started = True
            async with asyncio.timeout(self._stall_seconds):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self._stall_seconds)
        except (OSError, RuntimeError):
            # It was deleted a moment ago. Returning without the last message makes the server break the connection.
            if not started:
                raise


class JobEvents(Response):
    """Server-sent events of one job: `job.progress`, and its status in place of `progress` as the last one.

    A server that drains ends them, too: the client asks again, with the id of the last one.
    """

    def __init__(self, app: Services, jobs: JobService, job: Job, seen: int) -> None:
        super().__init__()
        self._app = app
        self._jobs = jobs
        self._job = job
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the job ends, the client leaves or the server drains."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._app.settings.stall_seconds):
                await send(message)

        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        try:
            await send_in_time({"type": "http.response.start", "status": 200, "headers": headers})
            # The job was deleted, or the server goes down.
            with suppress(ServiceError):
                await until_gone(receive, self._app.admission.drained(), self._follow(send_in_time))
            await send_in_time({"type": "http.response.body", "body": b"", "more_body": False})
        except ClientGoneError:
            pass
        except TimeoutError:
            log.info("a client read nothing for %g seconds and was dropped", self._app.settings.stall_seconds)

    async def _follow(self, send: Send) -> None:
        """Send events until the job ends. Raises ServiceError where it is gone."""
        quiet = 0.0
        loop = asyncio.get_running_loop()
        # Of a change before the job was read, which is then read once more.
        version = -1
        while True:
            if self._job.revision > self._seen:
                self._seen, quiet = self._job.revision, loop.time()
                await send({"type": "http.response.body", "body": _event(self._job), "more_body": True})
            if self._job.ended:
                return
            if loop.time() - quiet > COMMENT_SECONDS:
                quiet = loop.time()
                await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
            await asyncio.sleep(_EVENT_SECONDS)
            await self._jobs.changed(version, POLL_SECONDS)
            version = self._jobs.version
            self._job = await self._jobs.follow(self._job.id)


def _event(job: Job) -> bytes:
    kind = job.status if job.ended else "progress"
    data = job_item(job).model_dump_json()
    return f"id: {job.revision}\nevent: job.{kind}\ndata: {data}\n\n".encode()
