"""Models from their files to warm: the state of each, the loader, and the requests that wait for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol, TypeVar

from app.engine.admission import Admission, key_name, slot
from app.engine.backend import Hardware, active_memory, free_memory, hardware
from app.engine.catalog import Catalog
from app.errors import (
    DrainingError,
    ModelAbsentError,
    ModelFailedError,
    ModelLoadingError,
    ModelTooLargeError,
    ServiceError,
    UnavailableError,
    WrongModelKindError,
    without_paths,
)
from app.observability import metrics
from app.request_context import WaitPreference, wait_preference
from app.threads import REQUESTS
from models.contract import (
    Cancelled,
    Description,
    LanguageModel,
    Model,
    ModelError,
    ModelKind,
    Recognizer,
    Synthesizer,
    Translator,
    VoiceCloner,
    WarmupStep,
    WeightsMissingError,
)
from models.loading import steps

log = logging.getLogger(__name__)

T = TypeVar("T")
Load = Callable[[str], Model]

# Seconds between two looks whether a model is loaded, and between two whether there is room for it.
_POLL_SECONDS = 0.05
_MEMORY_POLL_SECONDS = 0.5
_DOES: dict[ModelKind, str] = {
    "text-to-speech": "speaks",
    "translation": "translates",
    "speech-recognition": "recognizes speech",
    "text-generation": "writes text",
}


class ModelStatus(StrEnum):
    """Stage of a model between its files and its requests. IDLE: it is not loaded."""

    IDLE = "idle"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    UNLOADING = "unloading"
    ABSENT = "absent"
    FAILED = "failed"


# States that a model leaves only by another request or command: nobody waits for a model that has one of them.
_SETTLED = (ModelStatus.FAILED, ModelStatus.ABSENT)


@dataclass(slots=True)
class ModelState:
    """Progress of one model from files to warm, and back. Written on the model thread, read anywhere.

    `memory` is the growth of MLX's arrays while the model was last loaded, in bytes; None for a model that is not
    MLX's, and before. `size` are the bytes of its files. `kind` is the model's task; None until it is loaded.

    `requests` and `jobs` that use the model keep it loaded; the worker counts them. `last_used` is the monotonic time
    at which the last of them ended, or the load. `awaited`: the request that had it loaded did not come back yet.
    `served`: it was ready at some time. `begun`: monotonic time at which its last load began. `unwanted`: its load is
    to be broken off. `refusal`: there was no room for it.
    """

    name: str
    status: ModelStatus = ModelStatus.IDLE
    model: Model | None = None
    step: WarmupStep | None = None
    seconds: float = 0.0
    error: str | None = None
    memory: int | None = None
    kind: ModelKind | None = None
    # The model by its kind: `isinstance` of a protocol takes long, and every request asks.
    synthesizer: Synthesizer | None = None
    translator: Translator | None = None
    recognizer: Recognizer | None = None
    language_model: LanguageModel | None = None
    size: int = 0
    requests: int = 0
    jobs: int = 0
    last_used: float = 0.0
    awaited: bool = False
    unwanted: bool = False
    served: bool = False
    begun: float = 0.0
    description: Description | None = None
    refusal: UnavailableError | None = None

    @property
    def in_use(self) -> bool:
        """Whether a request or a job uses the model."""
        return self.requests > 0 or self.jobs > 0

    @property
    def available(self) -> bool:
        """Whether the model was ready at some time, and is or can be loaded again."""
        return self.served and self.status not in (ModelStatus.FAILED, ModelStatus.ABSENT)

    @property
    def memory_needed(self) -> int:
        """Bytes of the loaded model: as they were measured, or those of its files where it is not MLX's."""
        return self.memory or self.size

    def forget(self) -> None:
        """Drop the model."""
        self.model = self.synthesizer = self.translator = self.recognizer = self.language_model = None
        self.step = None

    def note_loaded(self, model: Model) -> None:
        """Keep the model, which is not warm yet."""
        self.model = model
        self.description = Description.of(model)
        if isinstance(model, Translator):
            self.kind, self.translator = "translation", model
        elif isinstance(model, Recognizer):
            self.kind, self.recognizer = "speech-recognition", model
        elif isinstance(model, LanguageModel):
            self.kind, self.language_model = "text-generation", model
        else:
            self.kind, self.synthesizer = "text-to-speech", model

    @property
    def under_way(self) -> bool:
        """Whether the model is being loaded or warmed."""
        return self.status in (ModelStatus.LOADING, ModelStatus.WARMING)

    def ready_model(self) -> Model:
        """Return the warm model, also one that is unloaded once nobody uses it. Raises what `unready` returns."""
        if self.status in (ModelStatus.READY, ModelStatus.UNLOADING) and (model := self.model) is not None:
            return model
        raise self.unready()

    def unready(self) -> ServiceError:
        """Return the error for a request to a model that is not ready, or that is being unloaded."""
        if self.refusal is not None:
            return type(self.refusal)(self.refusal.message)
        if self.status is ModelStatus.ABSENT:
            return ModelAbsentError(self.error or f"The weights of model '{self.name}' are not on this machine.")
        if self.status is ModelStatus.FAILED:
            return ModelFailedError(f"Model '{self.name}' could not be loaded: {self.error}")
        if self.status is ModelStatus.UNLOADING:
            return ModelLoadingError(f"Model '{self.name}' is being unloaded; try again shortly.")
        step = f" ({self.step.done} of {self.step.total} shapes warm)" if self.step else ""
        return ModelLoadingError(f"Model '{self.name}' is being loaded{step}; try again shortly.")

    def ready_synthesizer(self) -> Synthesizer:
        """Return the warm model, which speaks. Raises as `ready_model` does, and WrongModelKindError."""
        return self._ready(self.synthesizer, "speak")

    def ready_translator(self) -> Translator:
        """Return the warm model, which translates. Raises as `ready_model` does, and WrongModelKindError."""
        return self._ready(self.translator, "translate")

    def ready_recognizer(self) -> Recognizer:
        """Return the warm model, which recognizes speech. Raises as `ready_model` does, and WrongModelKindError."""
        return self._ready(self.recognizer, "recognize speech")

    def ready_language_model(self) -> LanguageModel:
        """Return the warm model, which writes text. Raises as `ready_model` does, and WrongModelKindError."""
        return self._ready(self.language_model, "write text")

    def _ready(self, model: T | None, wanted: str) -> T:
        self.ready_model()
        if model is None:
            does = "is not loaded" if self.kind is None else _DOES[self.kind]
            raise WrongModelKindError(f"Model '{self.name}' {does}; it does not {wanted}.")
        return model

    def ready_cloner(self) -> VoiceCloner:
        """Return the warm model, which clones voices. Raises as `ready_model` does, and WrongModelKindError."""
        model = self.ready_model()
        if not isinstance(model, VoiceCloner):
            raise WrongModelKindError(f"Model '{self.name}' cannot speak in the voice of a recording.")
        return model


class ModelLoader:
    """Brings models from their files to warm, and drops them.

    `on_loaded` is called on the model thread with every model that was loaded, before it is warmed. If it raises, the
    model cannot be used, and its exception is the reason. `on_unloaded` is called there with the name of a model that
    was dropped. `hardware` is None until a model is loaded.
    """

    def __init__(self, load: Load, *, warmup: bool) -> None:
        self.on_loaded: Callable[[str, Model], None] = lambda name, model: None
        self.on_unloaded: Callable[[str], None] = lambda name: None
        self.hardware: Hardware | None = None
        self._load = load
        self._warmup = warmup

    def bring_up(
        self,
        state: ModelState,
        between_shapes: Callable[[], None],
        check: Callable[[ModelState], None] = lambda state: None,
    ) -> None:
        """Load and warm the model of `state`, and note in `state` how that went. Raises nothing.

        `between_shapes` is called after each array that was read, and each shape that was warmed. If it raises
        Cancelled, the model is idle again. `check` is called with the model's memory in `state`. If it raises
        ModelTooLargeError, the model is dropped.
        """
        start = time.perf_counter()
        state.error = state.refusal = None
        state.begun = time.monotonic()
        try:
            self._load_and_warm(state, between_shapes, check)
        except Cancelled:
            state.forget()
            free_memory()
            state.status = ModelStatus.IDLE
        except ModelTooLargeError as error:
            state.forget()
            error.__traceback__ = None  # its frames hold the model, and the state keeps the error
            free_memory()
            state.refusal, state.error = error, error.message
            state.status = ModelStatus.FAILED
            log.error("model %s is too large: %s", state.name, error)
        except WeightsMissingError as error:
            state.forget()
            state.error = without_paths(str(error))
            state.status = ModelStatus.ABSENT
            log.warning("model %s is absent: %s", state.name, error)
        except BaseException as error:  # the thread must survive whatever a checkpoint does, panics of Rust, too
            # Clients are told without paths; the log has all.
            state.forget()
            state.error = without_paths(str(error)) or type(error).__name__
            state.status = ModelStatus.FAILED
            log.exception("model %s cannot be loaded", state.name)
        else:
            state.seconds = time.perf_counter() - start
            metrics.warmup_seconds.labels(state.name).set(state.seconds)
            metrics.model_load_seconds.labels(state.name).observe(state.seconds)
            state.last_used = time.monotonic()
            state.served = True
            state.status = ModelStatus.READY

    def take_down(self, state: ModelState, reason: str) -> None:
        """Drop the model of `state`, and give its memory back; the log and the metrics have the `reason`."""
        start = time.perf_counter()
        state.forget()
        self.on_unloaded(state.name)
        free_memory()
        metrics.model_unloads.labels(state.name, reason).inc()
        metrics.model_memory.labels(state.name).set(0)
        state.status = ModelStatus.IDLE
        log.info("unloaded %s in %.2f s (%s)", state.name, time.perf_counter() - start, reason)

    def _load_and_warm(
        self, state: ModelState, between_shapes: Callable[[], None], check: Callable[[ModelState], None]
    ) -> None:
        def progress(step: WarmupStep) -> None:
            state.step = step
            log.info("warm %s: %s (%d of %d, %.2f s)", state.name, step.name, step.done, step.total, step.seconds)
            between_shapes()

        start = time.perf_counter()
        before = active_memory() or 0
        with steps(between_shapes):
            model = self._load(state.name)
        state.note_loaded(model)
        if (after := active_memory()) is not None:
            state.memory = max(0, after - before)
            metrics.model_memory.labels(state.name).set(state.memory)
        check(state)
        self.on_loaded(state.name, model)
        log.info("loaded %s in %.2f s", state.name, time.perf_counter() - start)
        if self.hardware is None and (found := hardware()) is not None:
            self.hardware = found
            log.info("device: %s; kernels: %s", found.device, found.kernels)
        if self._warmup:
            state.status = ModelStatus.WARMING
            model.warm(progress)


# Called with the progress of a model that a request waits for.
Progress = Callable[[ModelState], Awaitable[None]]


class Worker(Protocol):
    """Thread that loads models."""

    def state(self, name: str) -> ModelState: ...

    def request_load(self, name: str, *, again: bool = False) -> ModelState: ...

    def request_unload(self, name: str) -> ModelState: ...

    def hold(self, state: ModelState) -> bool: ...

    def release(self, state: ModelState) -> None: ...


class ModelLoads:
    """Models that requests name. One serves all requests: it bounds how many wait for a model to be loaded."""

    def __init__(self, catalog: Catalog, worker: Worker, admission: Admission, *, most: int, seconds: float) -> None:
        """Let at most `most` requests wait at once, each for up to `seconds`, and none once `admission` drains."""
        self._catalog = catalog
        self._worker = worker
        self._admission = admission
        self._most = most
        self._seconds = seconds
        # Requests that wait, by key.
        self._waiting: Counter[str | None] = Counter()

    def require(self, name: str, kind: ModelKind) -> ModelState:
        """Return the state of the model with the canonical name `name`; have it loaded unless it is already.

        Raises WrongModelKindError for a model not of `kind`, and ModelAbsentError with the command that installs it.
        """
        state = self._worker.state(name)
        if state.status is ModelStatus.READY and state.kind == kind:
            return state
        self._check_kind(name, kind)
        if state.status in (ModelStatus.IDLE, ModelStatus.ABSENT):
            state = self.load(name)
        return state

    def _check_kind(self, name: str, kind: ModelKind) -> None:
        own = self._catalog.kind(name)
        if own != kind:
            able = ", ".join(info.name for info in self._catalog.models() if info.kind == kind)
            raise WrongModelKindError(
                f"Model '{name}' {_DOES[own]}; asked for is one that {_DOES[kind]}: {able or 'none'}."
            )

    def _check_present(self, name: str) -> None:
        if not self._catalog.present(name):
            hint = next(info.install_hint for info in self._catalog.models() if info.name == name)
            raise ModelAbsentError(f"The weights of model '{name}' are not on this machine. {hint}")

    def load(self, name: str, *, again: bool = False) -> ModelState:
        """Have a model loaded; `again`: also one that failed, and one that is about to be unloaded.

        Raises ModelAbsentError with the command that installs it.
        """
        self._check_present(name)
        state = self._worker.request_load(name, again=again)
        state.awaited = True
        return state

    async def describe(self, name: str, kind: ModelKind) -> Description:
        """Return the properties of a model, which is not loaded for them. Raises ServiceError as `require` does."""
        self._check_kind(name, kind)
        state = self._worker.state(name)
        if state.status is ModelStatus.FAILED:
            raise state.unready()
        known = state.description
        if known is None:
            self._check_present(name)
            try:
                known = await REQUESTS.run(self._catalog.describe, name)
            except ModelError as error:
                raise ModelFailedError(f"Model '{name}' cannot be described: {without_paths(str(error))}") from error
        return known

    async def obtain(
        self, name: str, kind: ModelKind, progress: Progress | None = None, *, patient: bool = False
    ) -> ModelState:
        """Return the state of a warm model, which the request of the caller holds until its slot ends.

        A model that is not loaded begins to load, and the caller waits for it: as long as the server allows, or as a
        request over HTTP prefers (`Prefer: wait=5`). `progress` is called after each step of the load. `patient`: wait
        as long as the server allows, whatever the request prefers. Raises ServiceError: what `require` and
        `ModelState.ready_model` raise, and DrainingError.
        """
        state = self.require(name, kind)
        if not self._hold(state):
            seconds = self._seconds if patient else self.patience()
            await self.wait(state, progress, seconds)
            if not self._hold(state):
                raise state.unready()
        elif (preference := wait_preference.get()) is not None:
            preference.applied = self._bounded(preference)
        return state

    def patience(self) -> float:
        """Return the seconds that the request of the caller waits for a load."""
        preference = wait_preference.get()
        if preference is None or not preference.asked:
            return self._seconds
        preference.applied = self._bounded(preference)
        return preference.applied

    def _bounded(self, preference: WaitPreference) -> float:
        return self._seconds if preference.seconds is None else min(self._seconds, preference.seconds)

    def _hold(self, state: ModelState) -> bool:
        """Have the slot of the caller hold the model; return whether the model is ready."""
        taken = slot.get()
        if taken is None or taken.ended:
            return state.status is ModelStatus.READY
        if taken.holds(state.name):
            return True
        if not self._worker.hold(state):
            return False
        taken.hold(state.name, partial(self._worker.release, state))
        return True

    async def wait(
        self,
        state: ModelState,
        progress: Progress | None = None,
        seconds: float | None = None,
        until: ModelStatus = ModelStatus.READY,
    ) -> None:
        """Wait until the model of `state` is loaded and warm, or cannot be; call `progress` after each step.

        Returns at once if too many wait already, or half as many with the request's key. `ModelState.ready_model` tells
        afterwards whether the model is ready. `seconds`: longest wait; None: that of the server. `until`: IDLE waits
        until the model is unloaded. Raises DrainingError.
        """
        key = key_name()
        full = key is not None and self._waiting[key] >= max(1, self._most // 2)
        if full or self._waiting.total() >= self._most or seconds == 0:
            return
        told: int | None = None
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        self._waiting[key] += 1
        metrics.load_waits.set(self._waiting.total())
        try:
            while state.status not in (until, *_SETTLED) and time.monotonic() < end:
                if self._admission.draining:
                    raise DrainingError("The server is shutting down; try again shortly.")
                if state.status is ModelStatus.IDLE and until is ModelStatus.READY:
                    # It was unloaded meanwhile, or there was no room.
                    self._worker.request_load(state.name)
                done = 0 if state.step is None else state.step.done
                if progress is not None and done != told:
                    told = done
                    await progress(state)
                await asyncio.sleep(_POLL_SECONDS if state.refusal is None else _MEMORY_POLL_SECONDS)
        finally:
            self._waiting[key] -= 1
            self._waiting += Counter()  # only keys that wait stay
            metrics.load_waits.set(self._waiting.total())
