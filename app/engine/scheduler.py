"""Work for the model thread: models to load, texts to speak and to translate, voices to clone; order, giving up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from app.errors import OverloadedError
from models.contract import (
    AudioChunk,
    BatchSynthesizer,
    Conditioning,
    Model,
    SpeechRequest,
    Synthesizer,
    Translation,
    Translator,
    WarmupStep,
)
from models.timeline import Timeline

T = TypeVar("T")

# After so many newcomers in a row a stream that is about to fall silent gets its turns.
NEWCOMERS_IN_A_ROW = 4
# For how many seconds it then has them before others: about a sentence, which it would get no use of by halves.
HELD = 0.5
# Seconds of audio left at which a stream is about to fall silent.
URGENT = 0.25
# When a text is needed that nobody hears, in seconds after it was asked for.
UNHEARD = 2.0


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
    # The model again, as what it can do: finding out is dear, and every request would.
    synthesizer: Synthesizer | None = None
    translator: Translator | None = None
    choir: BatchSynthesizer | None = None
    step: WarmupStep | None = None
    seconds: float = 0.0
    error: str | None = None
    memory: int | None = None

    def loaded(self, model: Model) -> None:
        """Note the model."""
        self.model = model
        if isinstance(model, Translator):
            self.translator = model
        else:
            self.synthesizer = model
        self.choir = model if isinstance(model, BatchSynthesizer) and model.max_batch > 1 else None


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


@dataclass(frozen=True, slots=True)
class Joint:
    """What lets an utterance be spoken together with others: those of the same model with an equal `key`."""

    speaker: BatchSynthesizer
    key: Hashable
    request: SpeechRequest

    def fits(self, other: Joint | None) -> bool:
        """Whether `other` may be spoken in the same batch."""
        return other is not None and other.speaker is self.speaker and other.key == self.key


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    """An utterance to speak, a batch to translate, a voice to clone: whatever comes as items one after the other.

    `begin` makes the model's iterator, on the model thread; where it yields None the thread may turn to other work.
    At most `room` items wait for the consumer before the job is parked; `note` is told of each that was computed,
    `wasted` of one that nobody read. `joint` says what it may be computed together with, in place of `begin`.
    All but `results` belongs to the model thread once it is queued, under the worker's lock.
    """

    name: str
    begin: Callable[[], Iterator[T | None]]
    wasted: Callable[[T], None]
    note: Callable[[T], None]
    room: int
    timeline: Timeline
    cancelled: CancelToken
    priority: Priority
    loop: asyncio.AbstractEventLoop
    results: asyncio.Queue[T | BaseException | None]
    submitted: float
    joint: Joint | None = None
    items: Iterator[T | None] | None = None
    unread: int = 0
    parked: bool = False
    abandoned: bool = False

    def needed_at(self) -> float:
        """When the client will have played all that its stream has, or a while after the job was submitted."""
        until = self.timeline.plays_until
        return self.submitted + UNHEARD if until is None else until

    def given_up(self) -> bool:
        """Whether nobody wants what is not computed yet."""
        return self.abandoned or self.cancelled()

    def send(self, item: T | BaseException | None) -> None:
        """Hand `item` to the consumer's event loop; None ends the job."""
        try:
            self.loop.call_soon_threadsafe(self.results.put_nowait, item)
        except RuntimeError:
            # The event loop is closed: nobody is left to tell.
            self.abandoned = True


@dataclass(slots=True)
class Queues:
    """Whose turn it is on the model thread.

    In this order: a job of a client that has nothing yet and that has had no turn; a stream whose audio is about to run
    out, turn about with a job that began and has nothing to show yet; whatever will be needed soonest. A job that takes
    many turns to its first item thus holds up a newcomer by one of them at most, save for HELD seconds at times that
    keep a stream from silence. No kind can starve another.
    """

    first: deque[Job[Any]] = field(default_factory=deque)
    later: deque[Job[Any]] = field(default_factory=deque)
    newcomers_in_a_row: int = 0
    gave_way: bool = False
    # Which stream about to fall silent has its turns before others, and until when.
    held: Job[Any] | None = None
    held_until: float = 0.0

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self.first or self.later)

    def push(self, job: Job[Any]) -> None:
        """Put `job` in its queue: at the end, but before its stream's later sentences when it is half done."""
        if job.priority is Priority.FIRST:
            self.first.append(job)
        elif job.items is None:
            self.later.append(job)
        else:
            self.later.appendleft(job)

    def pop(self, now: float) -> Job[Any] | None:
        """Take whose turn it is at `now`."""
        # Of equal deadlines the first in the queue: sentences of one stream are computed in their order.
        soonest = min(self.later, key=Job.needed_at, default=None)
        urgent = soonest is not None and soonest.needed_at() - now < URGENT
        if soonest is not None and urgent and self.held is soonest and now < self.held_until:
            self.later.remove(soonest)
            return soonest
        newcomer = next((job for job in self.first if job.items is None), None)
        if newcomer is not None and not (urgent and self.newcomers_in_a_row >= NEWCOMERS_IN_A_ROW):
            self.newcomers_in_a_row += 1
            self.first.remove(newcomer)
            return newcomer
        self.newcomers_in_a_row = 0
        if soonest is not None and (not self.first or (urgent and not self.gave_way)):
            self.gave_way = True
            if newcomer is not None:
                self.held, self.held_until = soonest, now + HELD
            self.later.remove(soonest)
            return soonest
        self.gave_way = False
        return self.first.popleft() if self.first else None

    def join(self, job: Job[Any]) -> list[Job[Any]]:
        """Take those who may be computed together with `job`, which was taken, and who wait in the same queue.

        Newcomers join in the order in which they came, others by when they are needed. Nobody is waited for.
        """
        joint = job.joint
        if joint is None or job.items is not None:
            return []
        queue = self.first if job.priority is Priority.FIRST else self.later
        able = [other for other in queue if joint.fits(other.joint) and other.items is None and not other.given_up()]
        if job.priority is Priority.LATER:
            able.sort(key=Job.needed_at)
        taken = able[: joint.speaker.max_batch - 1]
        for other in taken:
            queue.remove(other)
        return taken


class Owner(Protocol):
    """What the reader of a job's results tells the worker; called on the event loop."""

    def on_read(self, job: Job[Any]) -> None: ...

    def on_close(self, job: Job[Any]) -> None: ...

    def on_late(self, job: Job[Any]) -> bool: ...


class Results(Generic[T]):
    """The items of one submitted job, as an async iterator. Close it to give up on the rest.

    Iterating raises ModelRequestError for what the model refuses, Cancelled, ModelFailedError, or OverloadedError for
    what had no turn within `patience` seconds of being submitted; None: however long that takes.
    """

    def __init__(self, owner: Owner, job: Job[T], patience: float | None = None) -> None:
        self._owner = owner
        self._patience = patience
        self._job = job
        self._ended = False

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._ended:
            raise StopAsyncIteration
        item = await self._next()
        if item is not None and not isinstance(item, BaseException):
            self._owner.on_read(self._job)
            return item
        self._ended = True
        if item is None:
            raise StopAsyncIteration
        raise item

    async def _next(self) -> T | BaseException | None:
        patience, self._patience = self._patience, None
        if patience is not None and self._job.results.empty():
            try:
                async with asyncio.timeout(max(0.0, self._job.submitted + patience - time.perf_counter())):
                    return await self._job.results.get()
            except TimeoutError:
                if self._owner.on_late(self._job):
                    return OverloadedError(f"The model had no time for this within {patience:g} seconds; try again.")
        return await self._job.results.get()

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
