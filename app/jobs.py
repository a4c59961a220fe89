"""Work for the model thread: models to load, texts to speak and to translate, voices to clone; order, giving up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from models.contract import AudioChunk, Conditioning, Model, Translation, WarmupStep
from models.timeline import Timeline

T = TypeVar("T")

# After so many first chunks in a row a later one gets its turn: streams under way never starve.
FIRSTS_IN_A_ROW = 4


class ModelStatus(StrEnum):
    """What the thread has done with a model."""

    IDLE = "idle"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(slots=True)
class ModelState:
    """Progress of one model from files to warm. Written on the model thread, read anywhere.

    `memory` is what MLX's arrays grew by, in bytes, while it was loaded; None for a model that is not MLX's.
    """

    name: str
    status: ModelStatus = ModelStatus.IDLE
    model: Model | None = None
    step: WarmupStep | None = None
    seconds: float = 0.0
    error: str | None = None
    memory: int | None = None


class Priority(IntEnum):
    """FIRST: the client has nothing yet. LATER: there is audio to play, or text to read, meanwhile."""

    FIRST = 0
    LATER = 1


class CancelToken:
    """One per stream, shared by everything that works for it. Setting it is safe on any thread."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: float | None = None

    def __call__(self) -> bool:
        return self.at is not None

    def cancel(self) -> None:
        """Ask for everything to stop. Later calls change nothing."""
        if self.at is None:
            self.at = time.perf_counter()


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    """An utterance to speak, a batch to translate, a voice to clone: whatever comes as items one after the other.

    `begin` makes the model's iterator, on the model thread; where it yields None the thread may turn to other work.
    At most `room` items wait for the consumer before the job is parked; `wasted` is told of one that nobody read.
    All but `results` belongs to the model thread once it is queued, under the worker's lock.
    """

    name: str
    begin: Callable[[], Iterator[T | None]]
    wasted: Callable[[T], None]
    room: int
    timeline: Timeline
    cancelled: CancelToken
    priority: Priority
    loop: asyncio.AbstractEventLoop
    results: asyncio.Queue[T | BaseException | None]
    submitted: float
    items: Iterator[T | None] | None = None
    unread: int = 0
    parked: bool = False
    abandoned: bool = False

    def send(self, item: T | BaseException | None) -> None:
        """Hand `item` to the consumer's event loop; None ends the job."""
        try:
            self.loop.call_soon_threadsafe(self.results.put_nowait, item)
        except RuntimeError:
            # The event loop is closed: nobody is left to tell.
            self.abandoned = True


@dataclass(slots=True)
class Queues:
    """First audio before later audio, each in turn; neither can starve the other."""

    first: deque[Job[Any]] = field(default_factory=deque)
    later: deque[Job[Any]] = field(default_factory=deque)
    firsts_in_a_row: int = 0

    def push(self, job: Job[Any]) -> None:
        """Put `job` at the end of its queue."""
        (self.first if job.priority is Priority.FIRST else self.later).append(job)

    def pop(self) -> Job[Any] | None:
        """Take whose turn it is."""
        if self.first and not (self.later and self.firsts_in_a_row >= FIRSTS_IN_A_ROW):
            self.firsts_in_a_row += 1
            return self.first.popleft()
        self.firsts_in_a_row = 0
        return self.later.popleft() if self.later else None


class Owner(Protocol):
    """What the reader of a job's results tells the worker; called on the event loop."""

    def on_read(self, job: Job[Any]) -> None: ...

    def on_close(self, job: Job[Any]) -> None: ...


class Results(Generic[T]):
    """The items of one submitted job, as an async iterator. Close it to give up on the rest.

    Iterating raises ModelRequestError for what the model refuses, Cancelled, or ModelFailedError.
    """

    def __init__(self, owner: Owner, job: Job[T]) -> None:
        self._owner = owner
        self._job = job
        self._ended = False

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._ended:
            raise StopAsyncIteration
        item = await self._job.results.get()
        if item is not None and not isinstance(item, BaseException):
            self._owner.on_read(self._job)
            return item
        self._ended = True
        if item is None:
            raise StopAsyncIteration
        raise item

    def close(self) -> None:
        """Drop what is not computed yet. Audio computed and not read counts as wasted."""
        self._job.abandoned = True
        while not self._job.results.empty():
            item = self._job.results.get_nowait()
            if item is None or isinstance(item, BaseException):
                self._ended = True
            else:
                self._job.wasted(item)
        if not self._ended:
            self._ended = True
            self._owner.on_close(self._job)


# The chunks of one utterance; the translations of one batch, in the order in which they are finished; one voice.
Utterance = Results[AudioChunk]
Translations = Results[Translation]
Conditionings = Results[Conditioning]
