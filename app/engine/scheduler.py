"""Order of the jobs on the model thread: whose turn is next, and who is computed with it. No thread, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from app.engine.jobs import Job, Priority

# Newcomers in a row after which a stream that is about to fall silent gets its turns.
NEWCOMERS_IN_A_ROW = 4
# Seconds for which such a stream then goes before others: about a sentence, as half of one helps nobody.
EXCLUSIVE_SECONDS = 0.5
# Seconds of audio left at which a stream is about to fall silent.
URGENT = 0.25


@dataclass(slots=True)
class Queues:
    """Jobs that wait for the model thread.

    `first_audio` are the jobs of clients that have nothing yet; a newcomer is one of them that has had no turn.
    `continuations` belong to streams that have audio left. `pop` asks four rules in turn: the stream that has its turns
    to itself, a newcomer, the continuation that is needed soonest, a first job that has begun. A job that takes many
    turns to its first item holds up a newcomer by one of them at most, but for EXCLUSIVE_SECONDS at times. No kind can
    starve another.
    """

    first_audio: deque[Job[Any]] = field(default_factory=deque)
    continuations: deque[Job[Any]] = field(default_factory=deque)
    newcomers_in_a_row: int = 0
    # Whether the last choice between an urgent continuation and a first job that has begun fell on the continuation.
    continuation_was_last: bool = False
    # Stream about to fall silent that goes before others, and until when.
    exclusive: Job[Any] | None = None
    exclusive_until: float = 0.0

    def __bool__(self) -> bool:
        """Whether any job waits."""
        return bool(self.first_audio or self.continuations)

    def push(self, job: Job[Any]) -> None:
        """Put `job` at the end of its queue, or before its stream's next sentences if it has begun."""
        if job.priority is Priority.FIRST_AUDIO:
            self.first_audio.append(job)
        elif job.items is None:
            self.continuations.append(job)
        else:
            self.continuations.appendleft(job)

    def pop(self, now: float) -> Job[Any] | None:
        """Take the job whose turn it is at `now`; None: no job waits."""
        # Of equal deadlines the first in the queue: sentences of one stream are computed in their order.
        soonest = min(self.continuations, key=Job.needed_at, default=None)
        urgent = soonest is not None and soonest.needed_at() - now < URGENT
        newcomer = next((job for job in self.first_audio if job.items is None), None)
        if soonest is not None and urgent and self._has_turns_to_itself(soonest, now):
            self.continuations.remove(soonest)
            return soonest
        if newcomer is not None and not self._newcomers_must_wait(urgent=urgent):
            self.newcomers_in_a_row += 1
            self.first_audio.remove(newcomer)
            return newcomer
        self.newcomers_in_a_row = 0
        if soonest is not None and self._continuation_goes_on(urgent=urgent):
            self.continuation_was_last = True
            if newcomer is not None:
                self.exclusive, self.exclusive_until = soonest, now + EXCLUSIVE_SECONDS
            self.continuations.remove(soonest)
            return soonest
        self.continuation_was_last = False
        return self.first_audio.popleft() if self.first_audio else None

    def _has_turns_to_itself(self, urgent: Job[Any], now: float) -> bool:
        """Rule 1: a stream that was just saved from silence keeps the thread for a while."""
        return self.exclusive is urgent and now < self.exclusive_until

    def _newcomers_must_wait(self, *, urgent: bool) -> bool:
        """Rule 2: newcomers go first, but only so many in a row while a stream is about to fall silent."""
        return urgent and self.newcomers_in_a_row >= NEWCOMERS_IN_A_ROW

    def _continuation_goes_on(self, *, urgent: bool) -> bool:
        """Rule 3: a continuation goes on if no first job waits, or turn about with one that has begun if urgent."""
        return not self.first_audio or (urgent and not self.continuation_was_last)

    def take_batch(self, job: Job[Any]) -> list[Job[Any]]:
        """Take the jobs that are computed with `job`, which was taken, and that wait in the same queue.

        First jobs are taken in the order in which they came, continuations by when they are needed. Nobody is waited
        for.
        """
        if job.batch_key is None or job.items is not None:
            return []
        queue = self.first_audio if job.priority is Priority.FIRST_AUDIO else self.continuations
        able = [
            other
            for other in queue
            if other.batch_key == job.batch_key and other.items is None and not other.given_up()
        ]
        if job.priority is Priority.CONTINUATION:
            able.sort(key=Job.needed_at)
        taken = able[: job.max_batch - 1]
        for other in taken:
            queue.remove(other)
        return taken
