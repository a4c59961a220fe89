"""ModelWorker: the one thread that owns MLX.

MLX arrays belong to the thread that evaluates them. So models are loaded, warmed and served on this thread, and it
never exits before shutdown. Each turn advances one sentence by one chunk, or speaks several that wait, or takes a batch
of sentences some steps further in its translation. A short request need not wait out a long one, and a client's first
audio goes before later sentences. Results cross to the event loop by `call_soon_threadsafe`. A reader that does not
keep up parks its own job and nobody else's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from app.engine.backend import call_backend, free_memory
from app.engine.jobs import ModelJob, Priority, Queues, Results, SpeechJob
from app.engine.model_loader import Load, ModelLoader, ModelState, ModelStatus
from app.engine.unloading import Reason, UnloadRules
from app.errors import ModelFailedError, OverloadedError, ServiceError, UnavailableError, model_failed
from app.observability import metrics
from models.contract import Cancelled, ModelRequestError
from models.native import programs
from models.timeline import Stage

log = logging.getLogger(__name__)

T = TypeVar("T")

# What `next` returns at the end of a model's iterator. It cannot be None, which a model yields where the thread may
# turn to other work.
_END: Any = object()
# Seconds between two beats of an idle thread.
BEAT = 0.5
# Seconds without work before all free memory goes back to the system; before, only what a long text left. The next
# sentence maps its pages again, which takes 3 to 8 % of its processor time: too much for a pause in a conversation.
REST = 10.0
# Seconds from the unloading of a model to a second collection of what refers to it.
FREE_AGAIN = 1.0
# Seconds for the event loop to close generators, before a model is loaded into the memory of another.
CLOSE_SECONDS = 0.05


class ModelWorker:
    """Owner of the models and of the thread they live on."""

    def __init__(
        self,
        load: Load,
        *,
        warmup: bool = True,
        queue_size: int = 64,
        queue_seconds: float | None = None,
        rules: UnloadRules | None = None,
        size_of: Callable[[str], int] = lambda name: 0,
    ) -> None:
        """Prepare the thread.

        `load` loads the model of a name. `warmup`: models are warmed before they are ready. `queue_size`: jobs that may
        wait for their first turn; `queue_seconds`: longest wait for it; None: any. `rules` tell which models are
        unloaded; None: none but on request. `size_of` returns the bytes of a model's files.
        """
        self.loader = ModelLoader(load, warmup=warmup)
        self.rules = rules or UnloadRules()
        self._size_of = size_of
        # Monotonic time at which the rules are asked again, and at which memory is looked for again.
        self._next_look = 0.0
        self._free_at: float | None = None
        self._queue_seconds = queue_seconds
        self._queue_size = queue_size
        self._models: dict[str, ModelState] = {}
        self._queues = Queues()
        self._loads: deque[ModelState] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._longest_turns: dict[str, float] = {}
        self._current: list[ModelJob[Any]] = []
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

    def free_memory(self) -> None:
        """Have the thread collect what nothing refers to any more, within a second or two."""
        if self._free_at is None:  # else who calls again and again would put it off
            self._free_at = time.monotonic() + FREE_AGAIN

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

    def request_load(self, name: str, *, again: bool = False) -> ModelState:
        """Have `name` loaded and warmed, unless it is already, is being, or failed. Returns at once.

        `again`: also a model that failed, and one that is about to be unloaded.
        """
        with self._changed:
            state = self._models.setdefault(name, ModelState(name))
            if again and state.status is ModelStatus.UNLOADING and state.in_use:
                state.status = ModelStatus.READY
            if again:
                state.unwanted, state.refusal = False, None
            if state.status in (ModelStatus.IDLE, ModelStatus.ABSENT) or (again and state.status is ModelStatus.FAILED):
                state.status = ModelStatus.LOADING
                state.error, state.unwanted = None, False
                self._loads.append(state)
                self._changed.notify()
            return state

    def request_unload(self, name: str) -> ModelState:
        """Have `name` unloaded as soon as nobody uses it, or its load broken off. Returns at once."""
        with self._changed:
            state = self.state(name)
            if state.status is ModelStatus.READY:
                state.status = ModelStatus.UNLOADING
                self._next_look = 0.0
                self._changed.notify()
            elif state.under_way:
                state.unwanted = True
            elif state.status is ModelStatus.FAILED:
                state.status, state.error, state.refusal = ModelStatus.IDLE, None, None
            return state

    def hold(self, state: ModelState) -> bool:
        """Count one more request that uses a model; return whether it is ready. `release` ends it."""
        with self._changed:
            if state.status is not ModelStatus.READY:
                return False
            state.requests += 1
            state.awaited = False
            return True

    def release(self, state: ModelState) -> None:
        """Count one request less that uses a model."""
        with self._changed:
            state.requests -= 1
            state.last_used = time.monotonic()
            if state.status is ModelStatus.UNLOADING:
                self._next_look = 0.0
                self._changed.notify()

    def submit(self, job: ModelJob[T]) -> Results[T]:
        """Queue a job of a warm model; call on the event loop that reads its results.

        Raises UnavailableError while the server stops, and OverloadedError if `queue_size` first jobs of its key wait.
        Other jobs belong to a stream that was let in, and are bounded by how far it may run ahead.
        """
        first = job.priority is Priority.FIRST_AUDIO
        with self._changed:
            if self._stopping or not self.alive:
                raise UnavailableError("The server is stopping.")
            if first and sum(other.key == job.key for other in self._queues.first_audio) >= self._queue_size:
                raise OverloadedError(f"{self._queue_size} requests are waiting already; try again shortly.")
            self._queues.push(job)
            self._count(job, 1)
            self._changed.notify()
        return Results(self, job, self._queue_seconds if first else None)

    # Called by Results, on the event loop.

    def on_late(self, job: ModelJob[Any]) -> bool:
        """Take a job that had no turn out of its queue; return whether that was possible."""
        with self._changed:
            if job not in self._queues.first_audio or job.items is not None:
                return False
            self._queues.first_audio.remove(job)
            self._count(job, -1)
            return True

    def on_read(self, job: ModelJob[Any]) -> None:
        """Count a read item: there is room for another."""
        with self._changed:
            job.unread -= 1
            self._unpark(job)

    def on_close(self, job: ModelJob[Any]) -> None:
        """Have the thread end the model's generator: nobody reads on."""
        with self._changed:
            self._unpark(job)

    def _unpark(self, job: ModelJob[Any]) -> None:
        if job.parked:
            job.parked = False
            self._queues.push(job)
            self._changed.notify()

    def _count(self, job: ModelJob[Any], more: int) -> None:
        """Count the jobs of a model; under the lock."""
        state = self._models.get(job.model)
        if state is not None:
            state.jobs += more
            state.awaited, state.last_used = False, time.monotonic()

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
                self._bring_up(load)
            else:
                self._work(jobs)
            self._unload_due()
            if jobs or load is not None:
                worked = time.perf_counter()
            elif idle and worked is not None:
                rested = time.perf_counter() - worked > REST
                call_backend("give_back", rested=rested)
                if rested:
                    worked = None
        with self._changed:
            jobs = [*self._queues.first_audio, *self._queues.continuations, *self._queues.background]
            self._queues = Queues()
        for job in jobs:
            self._end(job, UnavailableError("The server stopped before this was done."))
        call_backend("release_thread")

    def _bring_up(self, state: ModelState) -> None:
        """Make room for a model, load it and warm it."""
        try:
            state.size = self._size_of(state.name)
        except OSError as error:
            # The load itself tells it.
            log.warning("the size of model %s is not known: %s", state.name, error)
        if not self._make_room(state):
            return
        self.loader.bring_up(state, lambda: self._between_shapes(state), self._check_size)
        # Warming the longest shapes leaves more memory free than a sentence needs.
        call_backend("give_back", rested=True)
        with self._changed:
            if state.unwanted and state.status is ModelStatus.READY:
                state.status = ModelStatus.UNLOADING
            state.unwanted = False
            if state.model is None:
                # Arrays that were read of a broken file.
                self._free_at = time.monotonic() + FREE_AGAIN
        self._next_look = 0.0
        self._note_models()

    def _make_room(self, state: ModelState) -> bool:
        """Unload models until `state` fits; return whether it does, and note in it why not."""
        with self._changed:
            victims = self.rules.victims(self._models.values(), state, time.monotonic())
            if state.unwanted:
                state.unwanted, state.status = False, ModelStatus.IDLE
                return False
            if self.rules.too_large(state):
                state.refusal = self.rules.refuse_size(state)
                state.error, state.status = state.refusal.message, ModelStatus.FAILED
                return False
            if victims is None:
                state.refusal = self.rules.refuse_room(state, self._models.values())
                state.status = ModelStatus.IDLE
                return False
            for victim in victims:
                victim.status = ModelStatus.UNLOADING
        for victim in victims:
            self._take_down(victim, "memory")
        if victims:
            # The event loop closes generators meanwhile; then all memory is free before more is needed.
            time.sleep(CLOSE_SECONDS)
            free_memory()
        return True

    def _check_size(self, state: ModelState) -> None:
        if self.rules.too_large(state):
            raise self.rules.refuse_size(state)

    def _unload_due(self) -> None:
        """Unload a model that the rules name. They are asked every BEAT, or when something has changed."""
        now = time.monotonic()
        if self._free_at is not None and now >= self._free_at:
            self._free_at = None
            free_memory()
        if now < self._next_look:
            return
        self._next_look = now + BEAT
        with self._changed:
            due = self.rules.due(self._models.values(), now)
            if due is None:
                return
            due[0].status = ModelStatus.UNLOADING
        self._next_look = 0.0
        self._take_down(*due)

    def _take_down(self, state: ModelState, reason: Reason) -> None:
        self.loader.take_down(state, reason)
        # The first collection only closes the generators of requests that ended, and these refer to the model.
        self._free_at = time.monotonic() + FREE_AGAIN
        self._note_models()

    def _note_models(self) -> None:
        metrics.models_loaded.set(sum(state.model is not None for state in self._models.values()))

    def _note_beat(self) -> None:
        self._beat = time.perf_counter()

    def _take(self) -> list[ModelJob[Any]]:
        """Take the job whose turn it is, and those that are computed with it; under the lock."""
        job = None if self._stopping else self._queues.pop(time.perf_counter())
        self._current = [] if job is None else [job, *self._queues.take_batch(job)]
        return self._current

    def _work(self, jobs: list[ModelJob[Any]]) -> None:
        """Give one turn to the jobs that `_take` took."""
        if len(jobs) > 1:
            self._advance_batch(jobs)
        elif jobs:
            self._advance(jobs[0])

    def _between_shapes(self, state: ModelState) -> None:
        """Serve all jobs that wait, between two steps of the load of `state`.

        Raises Cancelled if the server stops, or nobody wants the model any more.
        """
        self._beat = time.perf_counter()
        while True:
            with self._changed:
                jobs = self._take()
                self._beat = time.perf_counter()
            if not jobs:
                break
            self._work(jobs)
        self._unload_due()
        if self._stopping or state.unwanted:
            raise Cancelled("stopping")

    def _advance(self, job: ModelJob[Any], *, again: bool = False) -> None:
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
        except BaseException as error:  # a panic of a tokenizer in Rust is no Exception
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

    def _note_wait(self, job: ModelJob[Any]) -> None:
        if job.priority is Priority.FIRST_AUDIO:
            # A later sentence is submitted ahead and waits for the one before it: that is no queue.
            job.timeline.add(Stage.QUEUE, time.perf_counter() - job.submitted)

    def _hand_over(self, job: ModelJob[T], item: T) -> None:
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

    def _advance_batch(self, jobs: list[ModelJob[Any]]) -> None:
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
        except BaseException:
            log.exception("model %s failed on a batch of %d; they are tried one by one", speech[0].model, len(speech))
        else:
            metrics.speech_batch.labels(speech[0].model).observe(len(speech))
        self._note_turn(speech[0].model, time.perf_counter() - start)
        for job in left.values():
            self._advance(job, again=True)

    def _turn(self, job: ModelJob[Any]) -> Any:
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

    def _end(self, job: ModelJob[Any], result: BaseException | None) -> None:
        if job.cancelled.at is not None:
            metrics.cancel_latency.labels(job.model).observe(time.perf_counter() - job.cancelled.at)
        with self._changed:
            self._count(job, -1)
        items, job.items = job.items, None
        close = getattr(items, "close", None)
        if close is not None:
            try:
                close()
            except BaseException:
                log.exception("model %s failed while being closed", job.model)
        job.send(result)
