"""Requests and answers about jobs as JSON. Where OpenAI's batches have a field, it has their name."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError
from starlette.datastructures import FormData, UploadFile

from app.books.service import NewJob
from app.books.types import MAX_METADATA, Job, JobOptions, JobStatus, MetadataKey, MetadataValue
from app.errors import InvalidRequestError
from app.server.exception_handlers import explain
from app.server.exchange import first_error
from app.server.forms import from_json

PATH: Final = "/v1/jobs"
MAX_FIELDS: Final = 100
MAX_FIELD_BYTES: Final = 16_384
_NAME: Final = re.compile(r"(\w{1,40})(?:\[(.{0,100})\])?", re.ASCII)
_LISTS: Final = frozenset({"lexicons", "subtitles"})


class JobForm(JobOptions):
    """`POST /v1/jobs`, as multipart/form-data. Unknown parameters are refused."""

    file: Annotated[
        Any,
        Field(
            description="the document: text, Markdown, HTML, EPUB, DOCX, SRT or VTT, by the ending of its name",
            json_schema_extra={"type": "string", "format": "binary"},
        ),
    ]
    metadata: Annotated[
        dict[MetadataKey, MetadataValue],
        BeforeValidator(from_json),
        Field(max_length=MAX_METADATA, description="pairs of strings that are kept with the job, as JSON"),
    ] = {}  # noqa: RUF012  (pydantic copies it)


def read_job_form(form: FormData) -> tuple[NewJob, UploadFile]:
    """Return the checked request of a form, and its document. Raises InvalidRequestError."""
    fields: dict[str, Any] = {}
    for key, value in form.multi_items():
        _take(fields, key, value)
    if "file" not in fields:
        raise InvalidRequestError(
            "Missing required parameter: 'file', the document, in a body of 'multipart/form-data'.", param="file"
        )
    try:
        result = JobForm.model_validate(fields)
        options = JobOptions.model_validate(result.model_dump(exclude={"file", "metadata"}))
        name = TypeAdapter(MetadataValue).validate_python(result.file.filename or "document")
    except ValidationError as error:
        raise explain(first_error(error), sorted(JobForm.model_fields)) from None
    return NewJob(name, options, result.metadata), result.file


def _take(fields: dict[str, Any], key: str, value: str | UploadFile) -> None:
    """Put one part of a form into `fields`. Lists are repeated, or JSON. Raises InvalidRequestError."""
    match = _NAME.fullmatch(key)
    name, inner = (key, None) if match is None else match.groups()
    if isinstance(value, UploadFile) != (name == "file"):
        wanted = "a file" if name == "file" else "text, not a file"
        raise InvalidRequestError(f"'{key[:40]}' must be {wanted}.", param=key[:40])
    if value == "":
        return  # clients send empty fields for what their users left empty
    if name in _LISTS and not inner and isinstance(value, str):
        fields.setdefault(name, []).extend(_listed(name, value))
    elif name == "metadata" and inner and isinstance(fields.setdefault(name, {}), dict):
        fields[name][inner] = value
    elif name in fields:
        raise InvalidRequestError(f"'{name[:40]}' is given twice.", param=name[:40])
    else:
        fields[name] = value


def _listed(name: str, value: str) -> list[Any]:
    if not value.lstrip().startswith("["):
        return [value]
    try:
        result = from_json(value)
    except ValueError as error:
        raise InvalidRequestError(f"Invalid '{name}': {error}.", param=name) from None
    return list(result)


class JobCounts(BaseModel):
    """Passages of a job: paragraphs, titles of chapters, cues. `failed`: those that could not be spoken."""

    total: int
    completed: int
    failed: int


class ChapterCounts(BaseModel):
    """Chapters of a job."""

    total: int
    completed: int


class JobErrorItem(BaseModel):
    """Reason why a passage was left out, or why the job failed. `line`: number of the passage, from 1."""

    code: str
    message: str
    param: str | None
    line: int | None


class JobErrors(BaseModel):
    """Errors of a job, as OpenAI's batches list them."""

    object: Literal["list"] = "list"
    data: list[JobErrorItem]


class JobFileItem(BaseModel):
    """Result of a job. `url` is its path on this server."""

    name: str
    bytes: int
    content_type: str
    url: str


class JobItem(BaseModel):
    """Job. Moments are seconds since 1970; `progress` is in [0, 1]; `audio_seconds` were made so far.

    `warnings` say what of the document is left out or guessed: at most 20, and a line that counts the others.
    """

    id: str
    object: Literal["job"] = "job"
    status: JobStatus
    input_file: str
    title: str
    progress: float
    audio_seconds: float
    request_counts: JobCounts
    chapters: ChapterCounts
    created_at: int
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    expires_at: int | None = None
    errors: JobErrors | None = None
    warnings: list[str]
    files: list[JobFileItem]
    bytes: int
    options: JobOptions
    metadata: dict[str, str]


class JobList(BaseModel):
    """Page of jobs, the newest first. The next page is asked for by `after` = `last_id`."""

    object: Literal["list"] = "list"
    data: list[JobItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class JobDeleted(BaseModel):
    """Answer to `DELETE /v1/jobs/{job_id}`."""

    id: str
    object: Literal["job"] = "job"
    deleted: Literal[True] = True


def job_item(job: Job) -> JobItem:
    """Describe a job."""
    errors = [JobErrorItem(code=e.code, message=e.message, param=e.param, line=e.line) for e in job.errors]
    files = [
        JobFileItem(
            name=file.name,
            bytes=file.size,
            content_type=file.media_type,
            url=f"{PATH}/{job.id}/files/{quote(file.name)}",
        )
        for file in job.files
    ]
    moments = {f"{status}_at": moment for status, moment in job.times.items() if status != "validating"}
    return JobItem(
        id=job.id,
        status=job.status,
        input_file=job.name,
        title=job.title,
        progress=round(job.progress, 4),
        audio_seconds=round(job.totals.seconds, 3),
        request_counts=JobCounts(total=job.passages, completed=job.totals.completed, failed=job.totals.failed),
        chapters=ChapterCounts(total=job.chapters, completed=job.chapter),
        created_at=job.created,
        expires_at=job.expires,
        errors=JobErrors(data=errors) if errors else None,
        warnings=list(job.warnings),
        files=files,
        bytes=job.bytes,
        options=job.options,
        metadata=job.metadata,
        **moments,  # type: ignore[arg-type]
    )
