"""Job: what was asked for, how far it is, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.audio.subtitles import SubtitleFormat
from app.books.audiobook.container import ChapterFormat
from app.speech.options import SpeechOptions
from models.contract import MAX_SPEED, MIN_SPEED

JobStatus: TypeAlias = Literal[
    "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
]
STATUSES: Final[tuple[JobStatus, ...]] = get_args(JobStatus)
ENDED: Final[frozenset[JobStatus]] = frozenset({"completed", "failed", "expired", "cancelled"})
ResultFormat: TypeAlias = Literal["m4b", "mp3", "chapters"]
"""`chapters`: a ZIP archive with one file for each chapter."""

MAX_NAME: Final = 500
"""Most characters of a title, an author or the name of a file."""
MAX_ERRORS: Final = 100
"""Errors that a job keeps."""
MAX_METADATA: Final = 16
"""Pairs of a job's metadata: OpenAI's limit, as are those of their lengths."""


def _unicode(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it holds half of a UTF-16 surrogate pair")
    return text


Text = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_unicode)]
MetadataValue = Annotated[str, Field(max_length=512), AfterValidator(_unicode)]
MetadataKey = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_unicode)]


class JobOptions(BaseModel):
    """Options of a job. None means the default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[Text | None, Field(description="a name of GET /v1/models; default: the default model")] = None
    voice: Annotated[Text | None, Field(description="voice, or a blend; default: the model's")] = None
    lang: Annotated[
        Text | None, Field(description="language that is spoken; default: the voice's, or what the document names")
    ] = None
    any_language: Annotated[bool, Field(description="speak a language that the model was not made for")] = False
    translate_to: Annotated[Text | None, Field(description="language to translate the document to first")] = None
    source: Annotated[Text | None, Field(description="language of the document, for `translate_to`")] = None
    translate_model: Annotated[Text | None, Field(description="model that translates")] = None
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    lexicons: Annotated[
        tuple[Text, ...], Field(max_length=8, description="ids of GET /v1/lexicons, the first to be asked first")
    ] = ()
    voice_marks: Annotated[bool, Field(description="`[voice:NAME]` in a paragraph changes the voice")] = True
    format: Annotated[
        ResultFormat, Field(description="one file with chapters, or `chapters`: a ZIP archive with a file for each")
    ] = "m4b"
    chapter_format: Annotated[ChapterFormat, Field(description="of the files in the archive of `chapters`")] = "mp3"
    subtitles: Annotated[
        tuple[SubtitleFormat, ...],
        AfterValidator(lambda names: tuple(dict.fromkeys(names))),
        Field(max_length=8, description="subtitles to write beside the audio"),
    ] = ()
    title: Annotated[Text | None, Field(description="in place of the document's own")] = None
    author: Annotated[Text | None, Field(description="in place of the document's own")] = None

    def speech(self) -> SpeechOptions:
        """Return the options of the speech. Nothing goes into the cache, which is for what is said again."""
        return SpeechOptions.of(self, cache=False)


@dataclass(frozen=True, slots=True)
class JobFile:
    """Result of a job. `size` in bytes."""

    name: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True)
class JobError:
    """Reason why a passage was left out, or why the job failed. `line`: number of the passage, from 1."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Passages that were spoken, those that could not be, the characters of both, and seconds of audio."""

    completed: int = 0
    failed: int = 0
    characters: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """Job of the key `owner`; None: of everybody. Times in seconds since 1970.

    `revision` grows with every change. There are `passages` and `chapters`; `chapter` of these are whole, `before` are
    their totals, and `totals` those of all that was made. `progress` in [0, 1]; `bytes` on disk. `times` holds the
    moment at which each status began, `served` the last one at which the work was taken up. `client` holds the limits
    of the key. `starts` counts the processes that took the work up since a passage was done. `warnings` are the
    document's.
    """

    id: str
    owner: str | None
    name: str
    options: JobOptions
    created: int
    status: JobStatus = "validating"
    revision: int = 1
    title: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    client: dict[str, Any] | None = None
    passages: int = 0
    chapters: int = 0
    chapter: int = 0
    before: Totals = Totals()
    totals: Totals = Totals()
    progress: float = 0.0
    bytes: int = 0
    starts: int = 0
    served: float = 0.0
    expires: int | None = None
    times: dict[str, int] = field(default_factory=dict)
    errors: tuple[JobError, ...] = ()
    files: tuple[JobFile, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing more is done for it."""
        return self.status in ENDED

    def to(self, status: JobStatus, **changes: Any) -> Job:
        """Return the job in another status, which begins now."""
        times = {**self.times, status: int(time.time())}
        return replace(self, status=status, times=times, **changes)

    def with_error(self, error: JobError) -> Job:
        """Return the job with one error more, as long as there is room for it."""
        return self if len(self.errors) >= MAX_ERRORS else replace(self, errors=(*self.errors, error))
