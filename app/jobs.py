"""Work for the model thread: models to load, utterances to speak, in which order, and how they are given up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from models.contract import AudioChunk, SpeechRequest, Synthesizer, WarmupStep
from models.timeline import Timeline

# After so manyfirst chunks in a row a later one gets its turn: streams under way never starve.
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
    """Progress of one model from files to warm. Written on the model thread, read anywhere."""

    name: str
    status: ModelStatus = ModelStatus.IDLE
    synthesizer: Synthesizer | None = None
    step: WarmupStep | None = None
    seconds: float = 0.0
    error: str | None = None


class Priority(IntEnum):
    """FIRST: the listener hears nothing yet. LATER: there is audio to play meanwhile."""

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
class Job:
    """One utterance. All but `results` belongs to the model thread once it is queued, under the worker's lock."""

    name: str
    model: Synthesizer
    request: SpeechRequest
    timeline: Timeline
    cancelled: CancelToken
    priority: Priority
    loop: asyncio.AbstractEventLoop
    results: asyncio.Queue[AudioChunk | BaseException | None]
    submitted: float
    chunks: Iterator[AudioChunk] | None = None
    unread: int = 0
    parked: bool = False
    abandoned: bool = False

    def send(self, item: AudioChunk | BaseException | None) -> None:
        """Hand `item` to the consumer's event loop; None ends the utterance."""
        try:
            self.loop.call_soon_threadsafe(self.results.put_nowait, item)
        except RuntimeError:
            # The event loop is closed: nobody is left to tell.
            self.abandoned = True


@dataclass(slots=True)
class Queues:
    """First audio before later audio, each in turn; neither can starve the other."""

    first: deque[Job] = field(default_factory=deque)
    later: deque[Job] = field(default_factory=deque)
    firsts_in_a_row: int = 0

    def push(self, job: Job) -> None:
        """Put `job` at the end of its queue."""
        (self.first if job.priority is Priority.FIRST else self.later).append(job)

    def pop(self) -> Job | None:
        """Take whose turn it is."""
        if self.first and not (self.later and self.firsts_in_a_row >= FIRSTS_IN_A_ROW):
            self.firsts_in_a_row += 1
            return self.first.popleft()
        self.firsts_in_a_row = 0
        return self.later.popleft() if self.later else None


class Owner(Protocol):
    """What an utterance tells the worker; called on the event loop."""

    def on_read(self, job: Job) -> None: ...

    def on_waste(self, job: Job, chunk: AudioChunk) -> None: ...

    def on_close(self, job: Job) -> None: ...


class Utterance:
    """The chunks of one submitted request, as an async iterator. Close it to give up on the rest.

    Iterating raises ModelRequestError for what the model refuses, Cancelled, or ModelFailedError.
    """

    def __init__(self, owner: Owner, job: Job) -> None:
        self._owner = owner
        self._job = job
        self._ended = False

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._ended:
            raise StopAsyncIteration
        item = await self._job.results.get()
        if isinstance(item, AudioChunk):
            self._owner.on_read(self._job)
            return item
        self._ended = True
        if item is None:
            raise StopAsyncIteration
        raise item

    def close(self) -> None:
        """Drop what is not computed yet. Chunks computed and not read count as wasted."""
        self._job.abandoned = True
        while not self._job.results.empty():
            item = self._job.results.get_nowait()
            if isinstance(item, AudioChunk):
                self._owner.on_waste(self._job, item)
            else:
                self._ended = True
        if not self._ended:
            self._ended = True
            self._owner.on_close(self._job)
