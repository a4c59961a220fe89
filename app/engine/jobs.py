"""Jobs for the model thread (speech, translation, recognition, voice conditioning), their order, and their results."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import methodcaller
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from app.engine.admission import key_name
from app.errors import ModelFailedError, OverloadedError
from app.observability import metrics
from models.contract import (
    AudioChunk,
    BatchItem,
    BatchSynthesizer,
    Conditioning,
    ModelError,
    Pcm,
    RecognitionRequest,
    RecognizedSegment,
    Recognizer,
    SpeechRequest,
    Synthesizer,
    Translation,
    TranslationRequest,
    Translator,
    VoiceCloner,
)
from models.timeline import Timeline

log = logging.getLogger(__name__)

T = TypeVar("T")

_needed_at = methodcaller("needed_at")

# Audio chunks that may wait for their reader before a job is parked.
UNREAD_CHUNKS = 2
# Segments of recognized speech that may wait for their reader before a job is parked.
UNREAD_SEGMENTS = 64
# Seconds after its submission at which a job is needed whose stream has no audio, such as a translation.
SILENT_START_SECONDS = 2.0
# Newcomers in a row after which a stream that is about to fall silent gets its turns.
NEWCOMERS_IN_A_ROW = 4
# Seconds for which such a stream then goes before others: about a sentence, as half of one helps nobody.
EXCLUSIVE_SECONDS = 0.5
# Seconds after its last turn at which work in the background has one before the jobs of other keys.
BACKGROUND_SECONDS = 2.0
# Seconds of audio left at which a stream is about to fall silent.
URGENT = 0.25


class Priority(IntEnum):
    """FIRST_AUDIO: the client has nothing yet. CONTINUATION: it has audio to play, or text to read, meanwhile.

    BACKGROUND: nobody waits; it has a turn where no other job waits for one, and at times before those of other keys.
    """

    FIRST_AUDIO = 0
    CONTINUATION = 1
    BACKGROUND = 2

    @property
    def label(self) -> str:
        """Name in metrics."""
        return ("first", "later", "background")[self]

    def after_first(self) -> Priority:
        """Return the priority of what follows the first item."""
        return max(self, Priority.CONTINUATION)


class CancelToken:
    """Switch that stops everything that works for one stream. Setting it is safe on any thread."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: float | None = None

    def __call__(self) -> bool:
        return self.at is not None

    def cancel(self) -> None:
        """Ask for everything to stop. Later calls change nothing."""
        if self.at is None:
            self.at = time.perf_counter()


class ModelJob(ABC, Generic[T]):
    """Work of one model that yields items one after the other.

    At most `room` items wait for the reader before the job is parked. Jobs with equal `batch_key` may be computed at
    once, up to `max_batch` of them; None: this one is computed alone. Once a job is queued, all of it but `results`
    belongs to the model thread, under the worker's lock.
    """

    room = 2
    batch_key: Hashable | None = None
    max_batch = 1

    def __init__(
        self,
        model: str,
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST_AUDIO,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Prepare a job of `model` whose reader runs on `loop` (default: the running one)."""
        self.model = model
        self.timeline = timeline
        self.cancelled = cancelled
        self.priority = priority
        # Unbounded by type, bounded by `room`: the thread cannot wait for the loop, it parks the job instead.
        self.results: asyncio.Queue[T | BaseException | None] = asyncio.Queue()
        self.key = key_name()
        self.submitted = time.perf_counter()
        self.items: Iterator[T | None] | None = None
        self.unread = 0
        self.parked = False
        self.abandoned = False
        self._loop = asyncio.get_running_loop() if loop is None else loop

    @abstractmethod
    def begin(self) -> Iterator[T | None]:
        """Return the model's iterator, on the model thread. Where it yields None the thread may turn to other work."""

    def accept(self, item: T) -> None:
        """Note that `item` was computed. Raises ModelFailedError for one that cannot be used."""

    def waste(self, item: T) -> None:
        """Note that nobody read `item`."""

    def is_last(self, item: T) -> bool:
        """Whether no item follows `item`."""
        return False

    def needed_at(self) -> float:
        """Return the time at which the client has played all that its stream has.

        Without audio it is SILENT_START_SECONDS seconds after the job was submitted.
        """
        until = self.timeline.plays_until
        return self.submitted + SILENT_START_SECONDS if until is None else until

    def given_up(self) -> bool:
        """Whether nobody wants the rest of the items."""
        return self.abandoned or self.cancelled()

    def send(self, item: T | BaseException | None) -> None:
        """Hand `item` to the reader's event loop; None ends the job."""
        try:
            self._loop.call_soon_threadsafe(self.results.put_nowait, item)
        except RuntimeError:
            # The event loop is closed: nobody is left to tell.
            self.abandoned = True


class SpeechJob(ModelJob[AudioChunk]):
    """One sentence to speak."""

    room = UNREAD_CHUNKS

    def __init__(
        self,
        model: str,
        synthesizer: Synthesizer,
        request: SpeechRequest,
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST_AUDIO,
    ) -> None:
        super().__init__(model, timeline, cancelled, priority)
        self.request = request
        self._synthesizer = synthesizer
        # One attribute tells it: `isinstance` of a protocol takes long, and every sentence asks.
        self.max_batch = getattr(synthesizer, "max_batch", 1)
        if self.max_batch > 1:
            key = self._batch_synthesizer.batch_key(request)
            self.batch_key = None if key is None else (model, key)

    @property
    def _batch_synthesizer(self) -> BatchSynthesizer:
        return cast("BatchSynthesizer", self._synthesizer)

    def begin(self) -> Iterator[AudioChunk | None]:
        """Speak the sentence alone."""
        metrics.speech_batch.labels(self.model).observe(1)
        return self._synthesizer.stream(self.request, self.timeline, self.cancelled)

    def begin_batch(self, jobs: Sequence[SpeechJob]) -> Iterator[tuple[int, AudioChunk | ModelError]]:
        """Speak `jobs`, of which this is one, at once. Yields the number of each with its only chunk, or its error."""
        items = [BatchItem(job.request, job.timeline, job.given_up) for job in jobs]
        return self._batch_synthesizer.speak(items)

    def accept(self, item: AudioChunk) -> None:
        """Note the seconds of audio that can be played now."""
        if not np.isfinite(item.pcm).all():
            # Encoders would make silence of it.
            log.error("model %s spoke NaN or infinity", self.model)
            raise ModelFailedError(f"Model '{self.model}' failed: what it spoke is not finite.")
        self.timeline.computed(item.pcm.size / self._synthesizer.sample_rate)

    def waste(self, item: AudioChunk) -> None:
        """Count audio that nobody heard."""
        metrics.wasted_audio.labels(self.model).inc(item.pcm.size / self._synthesizer.sample_rate)

    def is_last(self, item: AudioChunk) -> bool:
        """Whether `item` ends the sentence."""
        return item.last


class TranslationJob(ModelJob[Translation]):
    """Sentences to translate in one batch, at most the model's `max_batch`."""

    def __init__(
        self,
        model: str,
        translator: Translator,
        batch: Sequence[TranslationRequest],
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST_AUDIO,
    ) -> None:
        super().__init__(model, timeline, cancelled, priority)
        # Text is small: the whole batch may wait for its reader.
        self.room = len(batch) + 1
        self._translator = translator
        self._batch = batch
        self._left = len(batch)

    def begin(self) -> Iterator[Translation | None]:
        """Translate the batch."""
        metrics.translation_batch.labels(self.model).observe(len(self._batch))
        return self._translator.translate(self._batch, self.timeline, self.cancelled)

    def accept(self, item: Translation) -> None:
        """Count the sentences that are left."""
        self._left -= 1

    def is_last(self, item: Translation) -> bool:
        """Whether no sentence is left: the end needs no turn of its own, for which the reader would wait."""
        return self._left == 0


class RecognitionJob(ModelJob[RecognizedSegment]):
    """A recording, or a part of one, to write down."""

    room = UNREAD_SEGMENTS

    def __init__(
        self,
        model: str,
        recognizer: Recognizer,
        request: RecognitionRequest,
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST_AUDIO,
    ) -> None:
        super().__init__(model, timeline, cancelled, priority)
        self._recognizer = recognizer
        self._request = request
        self._busy_before = timeline.busy

    def begin(self) -> Iterator[RecognizedSegment | None]:
        """Recognize the recording."""
        return self._recognizer.recognize(self._request, self.timeline, self.cancelled)

    def needed_at(self) -> float:
        """Return a time that moves on with the turns the job had: a long recording does not hold up a later one."""
        return self.submitted + SILENT_START_SECONDS + self.timeline.busy - self._busy_before


class ConditioningJob(ModelJob[Conditioning]):
    """A voice to make from a recording, float32 mono [samples]."""

    def __init__(
        self,
        model: str,
        cloner: VoiceCloner,
        recording: tuple[Pcm, int],
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST_AUDIO,
    ) -> None:
        """Take the samples of the `recording` and its sample rate."""
        super().__init__(model, timeline, cancelled, priority)
        self._cloner = cloner
        self._pcm, self._sample_rate = recording

    def begin(self) -> Iterator[Conditioning | None]:
        """Make the voice."""
        return self._cloner.condition(self._pcm, self._sample_rate, self.timeline, self.cancelled)


@dataclass(slots=True)
class Queues:
    """Jobs that wait for the model thread, in their order. No thread, no clock.

    `first_audio` are the jobs of clients that have nothing yet; a newcomer is one of them that has had no turn.
    Keys take turns at them: those of one key do not wait for all of another's.
    `continuations` belong to streams that have audio left. `pop` asks four rules in turn: the stream that has its turns
    to itself, a newcomer, the continuation that is needed soonest, a first job that has begun. A job that takes many
    turns to its first item holds up a newcomer by one of them at most, but for EXCLUSIVE_SECONDS at times. Neither of
    these kinds can starve the other. Both starve `background` of their own key, which holds up either by one turn at
    most; beside those of other keys it has a turn in BACKGROUND_SECONDS.
    """

    first_audio: deque[ModelJob[Any]] = field(default_factory=deque)
    continuations: deque[ModelJob[Any]] = field(default_factory=deque)
    background: deque[ModelJob[Any]] = field(default_factory=deque)
    newcomers_in_a_row: int = 0
    # Whether the last choice between an urgent continuation and a first job that has begun fell on the continuation.
    continuation_was_last: bool = False
    # Stream about to fall silent that goes before others, and until when.
    exclusive: ModelJob[Any] | None = None
    exclusive_until: float = 0.0
    background_due: float = 0.0
    # Keys that had a first job, the one whose turn is longest ago first.
    served: dict[str | None, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any job waits."""
        return bool(self.first_audio or self.continuations or self.background)

    def push(self, job: ModelJob[Any]) -> None:
        """Put `job` at the end of its queue, or before its stream's next sentences if it has begun."""
        if job.priority is Priority.FIRST_AUDIO:
            self.first_audio.append(job)
            return
        queue = self.continuations if job.priority is Priority.CONTINUATION else self.background
        if job.items is None:
            queue.append(job)
        else:
            queue.appendleft(job)

    def pop(self, now: float) -> ModelJob[Any] | None:
        """Take the job whose turn it is at `now`; None: no job waits."""
        if self.background and now >= self.background_due:
            key = self.background[0].key
            if all(job.key != key for job in (*self.first_audio, *self.continuations)):
                return self._take_background(now)
        # Of equal deadlines the first in the queue: sentences of one stream are computed in their order.
        soonest = min(self.continuations, key=_needed_at, default=None)
        urgent = soonest is not None and soonest.needed_at() - now < URGENT
        first = self._first_jobs()
        newcomer = next((job for job in first if job.items is None), None)
        if soonest is not None and urgent and self._has_turns_to_itself(soonest, now):
            self.continuations.remove(soonest)
            return soonest
        if newcomer is not None and not self._newcomers_must_wait(urgent=urgent):
            self.newcomers_in_a_row += 1
            return self._serve(newcomer)
        self.newcomers_in_a_row = 0
        if soonest is not None and self._continuation_goes_on(urgent=urgent):
            self.continuation_was_last = True
            if newcomer is not None:
                self.exclusive, self.exclusive_until = soonest, now + EXCLUSIVE_SECONDS
            self.continuations.remove(soonest)
            return soonest
        self.continuation_was_last = False
        if first:
            return self._serve(first[0])
        return self._take_background(now) if self.background else None

    def _take_background(self, now: float) -> ModelJob[Any]:
        self.background_due = now + BACKGROUND_SECONDS
        return self.background.popleft()

    def _first_jobs(self) -> list[ModelJob[Any]]:
        """Return the first jobs of the key whose turn it is, in their order."""
        turns = {key: turn for turn, key in enumerate(self.served)}
        next_key = min((job.key for job in self.first_audio), key=lambda key: turns.get(key, -1), default=None)
        return [job for job in self.first_audio if job.key == next_key]

    def _serve(self, job: ModelJob[Any]) -> ModelJob[Any]:
        self.first_audio.remove(job)
        self.served.pop(job.key, None)
        self.served[job.key] = None
        return job

    def _has_turns_to_itself(self, urgent: ModelJob[Any], now: float) -> bool:
        """Rule 1: a stream that was just saved from silence keeps the thread for a while."""
        return self.exclusive is urgent and now < self.exclusive_until

    def _newcomers_must_wait(self, *, urgent: bool) -> bool:
        """Rule 2: newcomers go first, but only so many in a row while a stream is about to fall silent."""
        return urgent and self.newcomers_in_a_row >= NEWCOMERS_IN_A_ROW

    def _continuation_goes_on(self, *, urgent: bool) -> bool:
        """Rule 3: a continuation goes on if no first job waits, or turn about with one that has begun if urgent."""
        return not self.first_audio or (urgent and not self.continuation_was_last)

    def take_batch(self, job: ModelJob[Any]) -> list[ModelJob[Any]]:
        """Take the jobs that are computed with `job`, which was taken, and that wait in the same queue.

        First jobs are taken in the order in which they came, continuations by when they are needed. Nobody is waited
        for. A background job is computed alone: a batch is a longer turn.
        """
        if job.batch_key is None or job.items is not None or job.priority is Priority.BACKGROUND:
            return []
        queue = self.first_audio if job.priority is Priority.FIRST_AUDIO else self.continuations
        able = [
            other
            for other in queue
            if other.batch_key == job.batch_key and other.items is None and not other.given_up()
        ]
        if job.priority is Priority.CONTINUATION:
            able.sort(key=_needed_at)
        taken = able[: job.max_batch - 1]
        for other in taken:
            queue.remove(other)
        return taken


class Owner(Protocol):
    """Worker that a reader of results reports to, on the event loop."""

    def on_read(self, job: ModelJob[T]) -> None: ...

    def on_close(self, job: ModelJob[T]) -> None: ...

    def on_late(self, job: ModelJob[T]) -> bool: ...


class Results(Generic[T]):
    """Items of one submitted job, as an async iterator. Close it to give up on the rest.

    Iterating raises ModelRequestError for a request that the model refuses, Cancelled, ModelFailedError, or
    OverloadedError for a job that had no turn within `patience` seconds of being submitted; None: without a limit.
    """

    def __init__(self, owner: Owner, job: ModelJob[T], patience: float | None = None) -> None:
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
        """Drop the items that are not computed yet. Audio that was computed and not read counts as wasted."""
        self._job.abandoned = True
        while not self._job.results.empty():
            item = self._job.results.get_nowait()
            if item is None or isinstance(item, BaseException):
                self._ended = True
            else:
                self._job.waste(item)
        if not self._ended:
            self._ended = True
            self._owner.on_close(self._job)
