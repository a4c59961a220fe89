"""ModelWorker: the one thread that owns MLX.

MLX arrays belong to the thread that evaluates them. So models are loaded, warmed and served on this thread, and it
never exits before shutdown. Each turn advances one sentence by one chunk, or speaks several that wait, or takes a batch
of sentences some steps further in its translation. A short request need not wait out a long one, and a client's first
audio goes before later sentences. Results cross to the event loop by `call_soon_threadsafe`. A reader that does not
keep up parks its own job and nobody else's.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from typing import Any, TypeVar

from app.engine.jobs import Job, Priority, Queues, Results, SpeechJob
from app.engine.model_loader import Load, ModelLoader, ModelState, ModelStatus
from app.errors import ModelFailedError, OverloadedError, ServiceError, UnavailableError, model_failed
from app.observability import metrics
from models.contract import Cancelled, ModelRequestError
from models.native import programs
from models.timeline import Stage

log = logging.getLogger(__name__)

T = TypeVar("T")

# End of a model's iterator; None is taken: there the thread may turn to other work.
_END: Any = object()
# Seconds between two beats of an idle thread.
BEAT = 0.5
# Seconds without work before all free memory goes back to the system; before, only what a long text left. The next
# sentence maps its pages again, which takes 3 to 8 % of its processor time: too much for a pause in a conversation.
REST = 10.0


class ModelWorker:
    """Owner of the models and of the thread they live on."""

    def __init__(
        self, load: Load, *, warmup: bool = True, queue_size: int = 64, queue_seconds: float | None = None
    ) -> None:
        self.loader = ModelLoader(load, warmup=warmup)
        self._queue_seconds = queue_seconds
        self._queue_size = queue_size
        self._models: dict[str, ModelState] = {}
        self._queues = Queues()
        self._loads: deque[ModelState] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._longest_turns: dict[str, float] = {}
        self._current: list[Job[Any]] = []
        self._beat = time.perf_counter()
        self._thread = threading.Thread(target=self._run, name="mlx", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Cancel the jobs being computed, fail the others, end the thread. Blocks up to `timeout` seconds."""
        with self._changed:
            self._stopping = True
            for job in self._current:
                job.cancelled.cancel()
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the thread last began a turn, a warm-up step or an idle beat."""
        return time.perf_counter() - self._beat

    def depth(self) -> dict[Priority, int]:
        """Return how many jobs wait, by priority."""
        with self._changed:
            return {
                Priority.FIRST_AUDIO: len(self._queues.first_audio),
                Priority.CONTINUATION: len(self._queues.continuations),
                Priority.BACKGROUND: len(self._queues.background),
            }

    def state(self, name: str) -> ModelState:
        """Return the state of the model `name`; IDLE if it was never asked for."""
        return self._models.get(name) or ModelState(name)

    def request_load(self, name: str) -> ModelState:
        """Have `name` loaded and warmed, unless it is already, is being, or failed. Returns at once."""
        with self._changed:
            state = self._models.setdefault(name, ModelState(name))
            if state.status in (ModelStatus.IDLE, ModelStatus.ABSENT):
                state.status = ModelStatus.LOADING
                state.error = None
                self._loads.append(state)
                self._changed.notify()
            return state

    def submit(self, job: Job[T]) -> Results[T]:
        """Queue a job of a warm model; call on the event loop that reads its results.

        Raises UnavailableError while the server stops, and OverloadedError if `queue_size` first jobs wait already.
        Other jobs belong to a stream that was let in, and are bounded by how far it may run ahead.
        """
        first = job.priority is Priority.FIRST_AUDIO
        with self._changed:
            if self._stopping or not self.alive:
                raise UnavailableError("The server is stopping.")
            if first and len(self._queues.first_audio) >= self._queue_size:
                raise OverloadedError(f"{self._queue_size} requests are waiting already; try again shortly.")
            self._queues.push(job)
            self._changed.notify()
        return Results(self, job, self._queue_seconds if first else None)

    # Called by Results, on the event loop.

    def on_late(self, job: Job[Any]) -> bool:
        """Take a job that had no turn out of its queue; return whether that was possible."""
        with self._changed:
            if job not in self._queues.first_audio or job.items is not None:
                return False
            self._queues.first_audio.remove(job)
            return True

    def on_read(self, job: Job[Any]) -> None:
        """Count a read item: there is room for another."""
        with self._changed:
            job.unread -= 1
            self._unpark(job)

    def on_close(self, job: Job[Any]) -> None:
        """Have the thread end the model's generator: nobody reads on."""
        with self._changed:
            self._unpark(job)

    def _unpark(self, job: Job[Any]) -> None:
        if job.parked:
            job.parked = False
            self._queues.push(job)
            self._changed.notify()

    # The model thread.

    def _run(self) -> None:
        # A first load may wait for the compiler of the native kernels.
        programs.on_pause = self._note_beat
        worked: float | None = None
        while True:
            idle = False
            with self._changed:
                # Requests first: a model loaded on demand must not hold up what can be served.
                jobs = self._take()
                load = self._loads.popleft() if self._loads and not jobs and not self._stopping else None
                if not jobs and load is None and not self._stopping:
                    idle = not self._changed.wait(BEAT)
                self._beat = time.perf_counter()
                if self._stopping:
                    break
            if load is not None:
                self.loader.bring_up(load, self._between_shapes)
                # Warming the longest shapes leaves more memory free than a sentence needs.
                _give_back(rested=True)
            else:
                self._work(jobs)
            if jobs or load is not None:
                worked = time.perf_counter()
            elif idle and worked is not None:
                rested = time.perf_counter() - worked > REST
                _give_back(rested=rested)
                if rested:
                    worked = None
        self._fail_waiting()
        _call_backend("release_thread")

    def _note_beat(self) -> None:
        self._beat = time.perf_counter()

    def _take(self) -> list[Job[Any]]:
        """Take the job whose turn it is, and those that are computed with it; under the lock."""
        job = None if self._stopping else self._queues.pop(time.perf_counter())
        self._current = [] if job is None else [job, *self._queues.take_batch(job)]
        return self._current

    def _work(self, jobs: list[Job[Any]]) -> None:
        """Give one turn to the jobs that `_take` took."""
        if len(jobs) > 1:
            self._advance_batch(jobs)
        elif jobs:
            self._advance(jobs[0])

    def _fail_waiting(self) -> None:
        with self._changed:
            jobs = [*self._queues.first_audio, *self._queues.continuations, *self._queues.background]
            self._queues = Queues()
        for job in jobs:
            self._end(job, UnavailableError("The server stopped before this was done."))

    def _between_shapes(self) -> None:
        """Serve all jobs that wait, between two shapes of a model that is being warmed. Raises Cancelled."""
        self._beat = time.perf_counter()
        self._serve_waiting()
        if self._stopping:
            raise Cancelled("stopping")

    def _serve_waiting(self) -> None:
        while True:
            with self._changed:
                jobs = self._take()
                self._beat = time.perf_counter()
            if not jobs:
                return
            self._work(jobs)

    def _advance(self, job: Job[Any], *, again: bool = False) -> None:
        """Advance `job` to its next item, or by one turn of the model. `again`: its wait was noted before."""
        if job.given_up():
            self._end(job, Cancelled())
            return
        try:
            if job.items is None:
                if not again:
                    self._note_wait(job)
                job.items = job.begin()
            item = self._turn(job)
            # Read without the lock: a job that comes meanwhile has the next turn.
            while item is None and not (self._queues or self._stopping or job.given_up()):
                item = self._turn(job)
        except (Cancelled, ModelRequestError, ServiceError) as error:
            self._end(job, error)
            return
        except Exception as error:
            log.exception("model %s failed on one request", job.model)
            self._end(job, model_failed(job.model, error))
            return
        if item is _END:
            self._end(job, None)
        elif item is None:
            # No item yet: the jobs that wait have a turn before this goes on.
            with self._changed:
                self._queues.push(job)
        else:
            self._hand_over(job, item)

    def _note_wait(self, job: Job[Any]) -> None:
        if job.priority is Priority.FIRST_AUDIO:
            # A later sentence is submitted ahead and waits for the one before it: that is no queue.
            job.timeline.add(Stage.QUEUE, time.perf_counter() - job.submitted)

    def _hand_over(self, job: Job[T], item: T) -> None:
        """Send `item` to its reader, then queue the job again, park it or end it."""
        if job.given_up():
            job.waste(item)
            self._end(job, Cancelled())
            return
        try:
            job.accept(item)
        except ModelFailedError as error:
            self._end(job, error)
            return
        last = job.is_last(item)
        with self._changed:
            # The rest is needed later: the client has something to play or to read.
            job.priority = job.priority.after_first()
            job.unread += 1
            job.send(item)
            job.parked = not last and job.unread >= job.room and not job.abandoned
            if not (last or job.parked):
                self._queues.push(job)
        if last:
            self._end(job, None)

    def _advance_batch(self, jobs: list[Job[Any]]) -> None:
        """Speak several sentences in one turn. An error of one of them concerns no other."""
        speech = [job for job in jobs if isinstance(job, SpeechJob)]
        for job in speech:
            self._note_wait(job)
        left = dict(enumerate(speech))
        start = before = time.perf_counter()
        try:
            for number, outcome in speech[0].begin_batch(speech):
                # All sentences that are left share the time since the last one came.
                now = time.perf_counter()
                for job in left.values():
                    job.timeline.busy += (now - before) / len(left)
                before = now
                job = left.pop(number)
                if isinstance(outcome, BaseException):
                    self._end(job, outcome)
                else:
                    self._hand_over(job, outcome)
        except Exception:
            log.exception("model %s failed on a batch of %d; they are tried one by one", speech[0].model, len(speech))
        else:
            metrics.speech_batch.labels(speech[0].model).observe(len(speech))
        self._note_turn(speech[0].model, time.perf_counter() - start)
        for job in left.values():
            self._advance(job, again=True)

    def _turn(self, job: Job[Any]) -> Any:
        start = self._beat = time.perf_counter()
        try:
            return next(job.items or iter(()), _END)
        finally:
            seconds = time.perf_counter() - start
            job.timeline.busy += seconds
            self._note_turn(job.model, seconds)

    def _note_turn(self, name: str, seconds: float) -> None:
        if seconds > self._longest_turns.get(name, 0.0):
            self._longest_turns[name] = seconds
            metrics.longest_turn.labels(name).set(seconds)

    def _end(self, job: Job[Any], result: BaseException | None) -> None:
        if job.cancelled.at is not None:
            metrics.cancel_latency.labels(job.model).observe(time.perf_counter() - job.cancelled.at)
        items, job.items = job.items, None
        close = getattr(items, "close", None)
        if close is not None:
            try:
                close()
            except Exception:
                log.exception("model %s failed while being closed", job.model)
        job.send(result)


def _give_back(*, rested: bool) -> None:
    """Call `models.backend.give_back`, once a model has imported that module."""
    _call_backend("give_back", rested=rested)


def _call_backend(name: str, **named: object) -> None:
    """Call a function of `models.backend`, once the module has it: another thread may be importing it now."""
    function = getattr(sys.modules.get("models.backend"), name, None)
    if function is not None:
        function(**named)
