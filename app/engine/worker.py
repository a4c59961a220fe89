"""ModelWorker: the one thread that owns MLX.

MLX arrays belong to the thread that evaluates them, so loading, warming, serving and conversion to numpy all happen
here, and the thread never exits before shutdown. Each turn advances one utterance by one chunk, or speaks several that
wait, or takes a batch of sentences some steps further in its translation: a short request need not wait out a long one,
and what a client waits for first goes before what it needs later. Results cross to the event loop by
`call_soon_threadsafe`; a consumer that does not keep up parks its own job and nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from app.engine.scheduler import (
    CancelToken,
    Conditionings,
    Job,
    Joint,
    ModelState,
    ModelStatus,
    Priority,
    Queues,
    Results,
    Translations,
    Utterance,
)
from app.errors import (
    ModelAbsentError,
    ModelFailedError,
    ModelLoadingError,
    OverloadedError,
    ServiceError,
    UnavailableError,
    WrongModelKindError,
    model_failed,
    without_paths,
)
from app.observability import metrics
from models.contract import (
    Asked,
    AudioChunk,
    Cancelled,
    Conditioning,
    Model,
    ModelRequestError,
    Pcm,
    SpeechRequest,
    Synthesizer,
    Translation,
    TranslationRequest,
    Translator,
    VoiceCloner,
    WarmupStep,
    WeightsMissingError,
)
from models.timeline import Stage, Timeline

log = logging.getLogger(__name__)

Load = Callable[[str], Model]
T = TypeVar("T")

# Chunks an utterance may have waiting for its consumer before it is parked.
UNREAD = 2
# The end of a model's iterator; None is taken: there the thread may turn to other work.
_END: Any = object()
# An idle thread beats this often, in seconds.
BEAT = 0.5
# Seconds without work before all free memory goes back to the system, instead of what a long text left alone. The next
# sentence maps its pages again, measured at 3 to 8 % of its processor time: no price for a pause in a conversation.
REST = 10.0


class ModelWorker:
    """Owns the models and the thread they live on."""

    def __init__(
        self, load: Load, *, warmup: bool = True, queue_size: int = 64, queue_seconds: float | None = None
    ) -> None:
        self._load = load
        self._queue_seconds = queue_seconds
        self._warmup = warmup
        self._queue_size = queue_size
        self._models: dict[str, ModelState] = {}
        self._queues = Queues()
        self._loads: deque[ModelState] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._longest_turns: dict[str, float] = {}
        # Told, on the model thread, of every model that was loaded, before it is warmed.
        # Its exception is the reason that the model cannot be used.
        self.on_loaded: Callable[[str, Model], None] = lambda name, model: None
        self._current: list[Job[Any]] = []
        self._beat = time.perf_counter()
        self._thread = threading.Thread(target=self._run, name="mlx", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Cancel what is being computed, fail the rest, end the thread. Blocks up to `timeout` seconds."""
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
        """Jobs waiting, by priority."""
        with self._changed:
            return {Priority.FIRST: len(self._queues.first), Priority.LATER: len(self._queues.later)}

    def state(self, name: str) -> ModelState:
        """What is known about the model `name`; IDLE when it was never asked for."""
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

    def ready_model(self, name: str) -> Model:
        """The warm model `name`. Raises ModelLoadingError, ModelAbsentError or ModelFailedError."""
        state = self.state(name)
        if state.status is ModelStatus.READY and state.model is not None:
            return state.model
        if state.status is ModelStatus.ABSENT:
            raise ModelAbsentError(state.error or f"The weights of model '{name}' are not on this machine.")
        if state.status is ModelStatus.FAILED:
            raise ModelFailedError(f"Model '{name}' could not be loaded: {state.error}")
        step = f" ({state.step.done} of {state.step.total} shapes warm)" if state.step else ""
        raise ModelLoadingError(f"Model '{name}' is being loaded{step}; try again shortly.")

    def ready_synthesizer(self, name: str) -> Synthesizer:
        """The warm model `name`, which speaks. Raises what `ready_model` raises, and WrongModelKindError."""
        self.ready_model(name)
        model = self.state(name).synthesizer
        if model is None:
            raise WrongModelKindError(f"Model '{name}' translates; it does not speak.")
        return model

    def ready_translator(self, name: str) -> Translator:
        """The warm model `name`, which translates. Raises what `ready_model` raises, and WrongModelKindError."""
        self.ready_model(name)
        model = self.state(name).translator
        if model is None:
            raise WrongModelKindError(f"Model '{name}' speaks; it does not translate.")
        return model

    def submit(
        self,
        name: str,
        request: SpeechRequest,
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST,
    ) -> Utterance:
        """Queue one utterance; call on the event loop that will read it.

        Raises OverloadedError when `queue_size` first jobs wait already (later ones belong to a stream that
        was let in, and are bounded by how far it may run ahead), and what `ready_synthesizer` raises.
        """
        model = self.ready_synthesizer(name)

        def begin() -> Iterator[AudioChunk | None]:
            metrics.speech_batch.labels(name).observe(1)
            return model.stream(request, timeline, cancelled)

        def wasted(chunk: AudioChunk) -> None:
            metrics.wasted_audio.labels(name).inc(chunk.pcm.size / model.sample_rate)

        def note(chunk: AudioChunk) -> None:
            timeline.computed(chunk.pcm.size / model.sample_rate)

        joint = None
        if (choir := self.state(name).choir) is not None:
            key = choir.joins(request)
            joint = None if key is None else Joint(choir, key, request)
        return self._queue(name, begin, wasted, UNREAD, timeline, cancelled, priority, note, joint)

    def submit_batch(
        self,
        name: str,
        batch: Sequence[TranslationRequest],
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST,
    ) -> Translations:
        """Queue sentences to be translated together, at most the model's `max_batch`; otherwise like `submit`."""
        model = self.ready_translator(name)

        def begin() -> Iterator[Translation | None]:
            return model.translate(batch, timeline, cancelled)

        metrics.translation_batch.labels(name).observe(len(batch))
        # Text is small: the whole batch may wait for its reader.
        return self._queue(name, begin, lambda _: None, len(batch) + 1, timeline, cancelled, priority)

    def submit_conditioning(
        self,
        name: str,
        pcm: Pcm,
        sample_rate: int,
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority = Priority.FIRST,
    ) -> Conditionings:
        """Queue the making of a voice from a recording, float32 mono [samples]; otherwise like `submit`.

        Raises WrongModelKindError for a model that cannot speak in the voice of a recording.
        """
        model = self.ready_model(name)
        if not isinstance(model, VoiceCloner):
            raise WrongModelKindError(f"Model '{name}' cannot speak in the voice of a recording.")
        cloner: VoiceCloner = model

        def begin() -> Iterator[Conditioning | None]:
            return cloner.condition(pcm, sample_rate, timeline, cancelled)

        return self._queue(name, begin, lambda _: None, 2, timeline, cancelled, priority)

    def _queue(
        self,
        name: str,
        begin: Callable[[], Iterator[T | None]],
        wasted: Callable[[T], None],
        room: int,
        timeline: Timeline,
        cancelled: CancelToken,
        priority: Priority,
        note: Callable[[T], None] = lambda _: None,
        joint: Joint | None = None,
    ) -> Results[T]:
        loop = asyncio.get_running_loop()
        # Unbounded by type, bounded by `room`: the thread cannot wait for the loop, it parks the job instead.
        results: asyncio.Queue[T | BaseException | None] = asyncio.Queue()
        now = time.perf_counter()
        job = Job(name, begin, wasted, note, room, timeline, cancelled, priority, loop, results, now, joint)
        with self._changed:
            if self._stopping or not self.alive:
                raise UnavailableError("The server is stopping.")
            if priority is Priority.FIRST and len(self._queues.first) >= self._queue_size:
                raise OverloadedError(f"{self._queue_size} requests are waiting already; try again shortly.")
            self._queues.push(job)
            self._changed.notify()
        return Results(self, job, self._queue_seconds if priority is Priority.FIRST else None)

    # Called by Results, on the event loop.

    def on_late(self, job: Job[Any]) -> bool:
        """Take the job out of its queue, unless it had a turn; whether that was so."""
        with self._changed:
            if job not in self._queues.first or job.items is not None:
                return False
            self._queues.first.remove(job)
            return True

    def on_read(self, job: Job[Any]) -> None:
        """An item was taken: there is room for another."""
        with self._changed:
            job.unread -= 1
            self._unpark(job)

    def on_close(self, job: Job[Any]) -> None:
        """Nobody will read on: let the thread end the model's generator."""
        with self._changed:
            self._unpark(job)

    def _unpark(self, job: Job[Any]) -> None:
        if job.parked:
            job.parked = False
            self._queues.push(job)
            self._changed.notify()

    # The model thread.

    def _run(self) -> None:
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
                self._load_and_warm(load)
                # Warming the longest shapes leaves more free than a sentence needs.
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
        if "models.backend" in sys.modules:
            sys.modules["models.backend"].release_thread()

    def _take(self) -> list[Job[Any]]:
        """Whose turn it is, and who is computed together with it; under the lock."""
        job = None if self._stopping else self._queues.pop(time.perf_counter())
        self._current = [] if job is None else [job, *self._queues.join(job)]
        return self._current

    def _work(self, jobs: list[Job[Any]]) -> None:
        """One turn of what `_take` took."""
        if len(jobs) > 1:
            self._speak(jobs)
        elif jobs:
            self._advance(jobs[0])

    def _fail_waiting(self) -> None:
        with self._changed:
            jobs = [*self._queues.first, *self._queues.later]
            self._queues = Queues()
        for job in jobs:
            self._end(job, UnavailableError("The server stopped before this was done."))

    def _serve_waiting(self) -> None:
        """Do everything that can be done now: between two shapes of a model that is being warmed."""
        while True:
            with self._changed:
                jobs = self._take()
                self._beat = time.perf_counter()
            if not jobs:
                return
            self._work(jobs)

    def _load_and_warm(self, state: ModelState) -> None:
        def progress(step: WarmupStep) -> None:
            self._beat = time.perf_counter()
            state.step = step
            log.info("warm %s: %s (%d of %d, %.2f s)", state.name, step.name, step.done, step.total, step.seconds)
            self._serve_waiting()
            if self._stopping:
                raise Cancelled("stopping")

        start = time.perf_counter()
        try:
            before = _mlx_memory() or 0
            model = self._load(state.name)
            state.loaded(model)
            if (after := _mlx_memory()) is not None:
                state.memory = max(0, after - before)
                metrics.model_memory.labels(state.name).set(state.memory)
            self.on_loaded(state.name, model)
            log.info("loaded %s in %.2f s", state.name, time.perf_counter() - start)
            if self._warmup:
                state.status = ModelStatus.WARMING
                model.warm(progress)
        except Cancelled:
            state.status = ModelStatus.IDLE
            return
        except WeightsMissingError as error:
            state.error = without_paths(str(error))
            state.status = ModelStatus.ABSENT
            log.warning("model %s is absent: %s", state.name, error)
            return
        except Exception as error:  # the thread must survive whatever a checkpoint does
            # Clients are told of it; the log has all.
            state.error = without_paths(str(error)) or type(error).__name__
            state.status = ModelStatus.FAILED
            log.exception("model %s cannot be loaded", state.name)
            return
        state.seconds = time.perf_counter() - start
        metrics.warmup_seconds.labels(state.name).set(state.seconds)
        state.status = ModelStatus.READY

    def _advance(self, job: Job[Any], *, again: bool = False) -> None:
        """Take `job` on to its next item, or as far as the model goes in one turn; `again`: its wait is noted."""
        if job.given_up():
            self._end(job, Cancelled())
            return
        try:
            if job.items is None:
                if not again:
                    self._note_wait(job)
                job.items = job.begin()
            item = self._turn(job)
            # Read without the lock: who comes meanwhile has the next turn.
            while item is None and not (self._queues or self._stopping or job.given_up()):
                item = self._turn(job)
        except (Cancelled, ModelRequestError, ServiceError) as error:
            self._end(job, error)
            return
        except Exception as error:
            log.exception("model %s failed on one request", job.name)
            self._end(job, model_failed(job.name, error))
            return
        if item is _END:
            self._end(job, None)
        elif item is None:
            # Nothing to hand over yet: whoever waits has a turn before this goes on.
            with self._changed:
                self._queues.push(job)
        else:
            self._hand_over(job, item)

    def _note_wait(self, job: Job[Any]) -> None:
        if job.priority is Priority.FIRST:
            # A later sentence is submitted ahead and waits for its own stream's earlier one: no queue.
            job.timeline.add(Stage.QUEUE, time.perf_counter() - job.submitted)

    def _hand_over(self, job: Job[Any], item: Any) -> None:
        if job.given_up():
            job.wasted(item)
            self._end(job, Cancelled())
        elif isinstance(item, AudioChunk) and not np.isfinite(item.pcm).all():
            # Encoders would make silence of it.
            log.error("model %s spoke NaN or infinity", job.name)
            self._end(job, ModelFailedError(f"Model '{job.name}' failed: what it spoke is not finite."))
        else:
            # What follows is needed later: its client has something to play or to read.
            job.priority = Priority.LATER
            self._deliver(job, item)

    def _speak(self, jobs: list[Job[Any]]) -> None:
        """Utterances that may be spoken together, in one turn. What one of them is refused concerns no other."""
        for job in jobs:
            self._note_wait(job)
        joints = [job.joint for job in jobs if job.joint is not None]
        asked = [Asked(joint.request, job.timeline, job.given_up) for job, joint in zip(jobs, joints, strict=True)]
        left = dict(enumerate(jobs))
        start = before = time.perf_counter()
        try:
            for number, outcome in joints[0].speaker.speak(asked):
                # All that took part share what was computed since the last one.
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
            log.exception("model %s failed on a batch of %d; they are tried one by one", jobs[0].name, len(jobs))
        else:
            metrics.speech_batch.labels(jobs[0].name).observe(len(jobs))
        self._note_turn(jobs[0].name, time.perf_counter() - start)
        for job in left.values():
            self._advance(job, again=True)

    def _turn(self, job: Job[Any]) -> Any:
        start = self._beat = time.perf_counter()
        try:
            return next(job.items or iter(()), _END)
        finally:
            seconds = time.perf_counter() - start
            job.timeline.busy += seconds
            self._note_turn(job.name, seconds)

    def _note_turn(self, name: str, seconds: float) -> None:
        if seconds > self._longest_turns.get(name, 0.0):
            self._longest_turns[name] = seconds
            metrics.longest_turn.labels(name).set(seconds)

    def _deliver(self, job: Job[Any], item: AudioChunk | Translation | Conditioning) -> None:
        last = isinstance(item, AudioChunk) and item.last
        with self._changed:
            job.unread += 1
            job.note(item)
            job.send(item)
            job.parked = not last and job.unread >= job.room and not job.abandoned
            if not (last or job.parked):
                self._queues.push(job)
        if last:
            self._end(job, None)

    def _end(self, job: Job[Any], result: BaseException | None) -> None:
        if job.cancelled.at is not None:
            metrics.cancel_latency.labels(job.name).observe(time.perf_counter() - job.cancelled.at)
        items, job.items = job.items, None
        close = getattr(items, "close", None)
        if close is not None:
            try:
                close()
            except Exception:
                log.exception("model %s failed while being closed", job.name)
        job.send(result)


def _give_back(*, rested: bool) -> None:
    """As `models.backend.give_back`, once a model has imported that."""
    if "models.backend" in sys.modules:
        sys.modules["models.backend"].give_back(rested=rested)


def _mlx_memory() -> int | None:
    """Bytes of MLX's arrays; None while nothing has imported MLX."""
    backend = sys.modules.get("models.backend")
    return None if backend is None else int(backend.memory().active)
