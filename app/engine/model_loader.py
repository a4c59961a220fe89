"""Models from their files to warm: the state of each, the loader, and the requests that wait for it."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.engine.admission import Admission
from app.engine.catalog import Catalog
from app.errors import (
    DrainingError,
    ModelAbsentError,
    ModelFailedError,
    ModelLoadingError,
    WrongModelKindError,
    without_paths,
)
from app.observability import metrics
from models.contract import (
    Cancelled,
    Model,
    ModelKind,
    Recognizer,
    Synthesizer,
    Translator,
    VoiceCloner,
    WarmupStep,
    WeightsMissingError,
)

log = logging.getLogger(__name__)

Load = Callable[[str], Model]

# Seconds between two looks whether a model is loaded.
_LOOK_EVERY = 0.05
_DOES: dict[ModelKind, str] = {
    "text-to-speech": "speaks",
    "translation": "translates",
    "speech-recognition": "recognizes speech",
}


class ModelStatus(StrEnum):
    """Stage of a model between its files and its first request."""

    IDLE = "idle"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(slots=True)
class ModelState:
    """Progress of one model from files to warm. Written on the model thread, read anywhere.

    `memory` is the growth of MLX's arrays while the model was loaded, in bytes; None for a model that is not MLX's.
    `kind` is the model's task; None until it is loaded.
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

    def note_loaded(self, model: Model) -> None:
        """Keep the model, which is not warm yet."""
        self.model = model
        if isinstance(model, Translator):
            self.kind, self.translator = "translation", model
        elif isinstance(model, Recognizer):
            self.kind, self.recognizer = "speech-recognition", model
        else:
            self.kind, self.synthesizer = "text-to-speech", model

    @property
    def does(self) -> str:
        """Verb for the task of a loaded model, such as "speaks"."""
        return "is not loaded" if self.kind is None else _DOES[self.kind]

    @property
    def under_way(self) -> bool:
        """Whether the model is being loaded or warmed."""
        return self.status in (ModelStatus.LOADING, ModelStatus.WARMING)

    def ready_model(self) -> Model:
        """Return the warm model. Raises ModelLoadingError, ModelAbsentError or ModelFailedError."""
        if self.status is ModelStatus.READY and self.model is not None:
            return self.model
        if self.status is ModelStatus.ABSENT:
            raise ModelAbsentError(self.error or f"The weights of model '{self.name}' are not on this machine.")
        if self.status is ModelStatus.FAILED:
            raise ModelFailedError(f"Model '{self.name}' could not be loaded: {self.error}")
        step = f" ({self.step.done} of {self.step.total} shapes warm)" if self.step else ""
        raise ModelLoadingError(f"Model '{self.name}' is being loaded{step}; try again shortly.")

    def ready_synthesizer(self) -> Synthesizer:
        """Return the warm model, which speaks. Raises as `ready_model` does, and WrongModelKindError."""
        self.ready_model()
        if self.synthesizer is None:
            raise WrongModelKindError(f"Model '{self.name}' {self.does}; it does not speak.")
        return self.synthesizer

    def ready_translator(self) -> Translator:
        """Return the warm model, which translates. Raises as `ready_model` does, and WrongModelKindError."""
        self.ready_model()
        if self.translator is None:
            raise WrongModelKindError(f"Model '{self.name}' {self.does}; it does not translate.")
        return self.translator

    def ready_recognizer(self) -> Recognizer:
        """Return the warm model, which recognizes speech. Raises as `ready_model` does, and WrongModelKindError."""
        self.ready_model()
        if self.recognizer is None:
            raise WrongModelKindError(f"Model '{self.name}' {self.does}; it does not recognize speech.")
        return self.recognizer

    def ready_cloner(self) -> VoiceCloner:
        """Return the warm model, which clones voices. Raises as `ready_model` does, and WrongModelKindError."""
        model = self.ready_model()
        if not isinstance(model, VoiceCloner):
            raise WrongModelKindError(f"Model '{self.name}' cannot speak in the voice of a recording.")
        return model


@dataclass(frozen=True, slots=True)
class Hardware:
    """Device of MLX, and the instructions and threads of the native kernels ("mlx": none are in use), in words."""

    device: str
    kernels: str


class ModelLoader:
    """Brings models from their files to warm.

    `on_loaded` is called on the model thread with every model that was loaded, before it is warmed. If it raises, the
    model cannot be used, and its exception is the reason. `hardware` is None until a model is loaded.
    """

    def __init__(self, load: Load, *, warmup: bool) -> None:
        self.on_loaded: Callable[[str, Model], None] = lambda name, model: None
        self.hardware: Hardware | None = None
        self._load = load
        self._warmup = warmup

    def bring_up(self, state: ModelState, between_shapes: Callable[[], None]) -> None:
        """Load and warm the model of `state`, and note in `state` how that went. Raises nothing.

        `between_shapes` is called after each shape that was warmed. If it raises Cancelled, the model stays idle.
        """
        start = time.perf_counter()
        try:
            self._load_and_warm(state, between_shapes)
        except Cancelled:
            state.status = ModelStatus.IDLE
        except WeightsMissingError as error:
            state.error = without_paths(str(error))
            state.status = ModelStatus.ABSENT
            log.warning("model %s is absent: %s", state.name, error)
        except Exception as error:  # the thread must survive whatever a checkpoint does
            # Clients are told without paths; the log has all.
            state.error = without_paths(str(error)) or type(error).__name__
            state.status = ModelStatus.FAILED
            log.exception("model %s cannot be loaded", state.name)
        else:
            state.seconds = time.perf_counter() - start
            metrics.warmup_seconds.labels(state.name).set(state.seconds)
            state.status = ModelStatus.READY

    def _load_and_warm(self, state: ModelState, between_shapes: Callable[[], None]) -> None:
        def progress(step: WarmupStep) -> None:
            state.step = step
            log.info("warm %s: %s (%d of %d, %.2f s)", state.name, step.name, step.done, step.total, step.seconds)
            between_shapes()

        start = time.perf_counter()
        before = _mlx_memory() or 0
        model = self._load(state.name)
        state.note_loaded(model)
        if (after := _mlx_memory()) is not None:
            state.memory = max(0, after - before)
            metrics.model_memory.labels(state.name).set(state.memory)
        self.on_loaded(state.name, model)
        log.info("loaded %s in %.2f s", state.name, time.perf_counter() - start)
        if self.hardware is None and (found := _hardware()) is not None:
            self.hardware = found
            log.info("device: %s; kernels: %s", found.device, found.kernels)
        if self._warmup:
            state.status = ModelStatus.WARMING
            model.warm(progress)


def _mlx_memory() -> int | None:
    """Return the bytes of MLX's arrays; None while nothing has imported MLX, or another thread imports it."""
    memory = getattr(sys.modules.get("models.backend"), "memory", None)
    return None if memory is None else int(memory().active)


def _hardware() -> Hardware | None:
    """Return what the models compute with; None while nothing has imported MLX."""
    if "models.backend" not in sys.modules:
        return None
    from models.backend import device_name
    from models.native.kernels import description

    return Hardware(device_name(), description())


# Called with the progress of a model that a request waits for.
Progress = Callable[[ModelState], Awaitable[None]]


class Worker(Protocol):
    """Thread that loads models."""

    def state(self, name: str) -> ModelState: ...

    def request_load(self, name: str) -> ModelState: ...


class ModelLoads:
    """Models that requests name. One serves all requests: it bounds how many wait for a model to be loaded."""

    def __init__(self, catalog: Catalog, worker: Worker, admission: Admission, *, most: int, seconds: float) -> None:
        """Let at most `most` requests wait at once, each for up to `seconds`, and none once `admission` drains."""
        self._catalog = catalog
        self._worker = worker
        self._admission = admission
        self._most = most
        self._seconds = seconds
        self._waiting = 0

    def require(self, name: str, kind: ModelKind) -> ModelState:
        """Return the state of the model with the canonical name `name`; have it loaded unless it is already.

        Raises WrongModelKindError for a model not of `kind`, and ModelAbsentError with the command that installs it.
        """
        state = self._worker.state(name)
        if state.status is ModelStatus.READY and state.kind == kind:
            return state
        own = self._catalog.kind(name)
        if own != kind:
            able = ", ".join(info.name for info in self._catalog.models() if info.kind == kind)
            raise WrongModelKindError(
                f"Model '{name}' {_DOES[own]}; asked for is one that {_DOES[kind]}: {able or 'none'}."
            )
        if state.status in (ModelStatus.IDLE, ModelStatus.ABSENT):
            if not self._catalog.present(name):
                hint = next(info.install_hint for info in self._catalog.models() if info.name == name)
                raise ModelAbsentError(f"The weights of model '{name}' are not on this machine. {hint}")
            state = self._worker.request_load(name)
        return state

    async def wait(self, state: ModelState, progress: Progress | None = None) -> None:
        """Wait while the model of `state` is loaded and warmed; call `progress` after each step.

        Returns at once if too many wait already. `ModelState.ready_model` tells afterwards whether the model is ready.
        Raises DrainingError.
        """
        if not state.under_way or self._waiting >= self._most:
            return
        told: int | None = None
        end = time.monotonic() + self._seconds
        self._waiting += 1
        try:
            while state.under_way and time.monotonic() < end:
                if self._admission.draining:
                    raise DrainingError("The server is shutting down; try again shortly.")
                done = 0 if state.step is None else state.step.done
                if progress is not None and done != told:
                    told = done
                    await progress(state)
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            self._waiting -= 1
