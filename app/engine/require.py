"""Models that requests name: check their kind and files, load them on first use, wait until they are loaded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from app.engine.admission import Admission
from app.engine.catalog import Catalog
from app.engine.model_loader import ModelState, ModelStatus
from app.engine.worker import ModelWorker
from app.errors import DrainingError, ModelAbsentError, WrongModelKindError
from models.contract import ModelKind

# Called with the progress of a model that a request waits for.
Progress = Callable[[ModelState], Awaitable[None]]

# Seconds between two looks whether a model is loaded.
_LOOK_EVERY = 0.05
_UNDER_WAY = (ModelStatus.LOADING, ModelStatus.WARMING)
_DOES: dict[str, str] = {"text-to-speech": "speaks", "translation": "translates"}


def require(catalog: Catalog, worker: ModelWorker, name: str, kind: ModelKind) -> ModelState:
    """Return the state of the model with the canonical name `name`; have it loaded unless it is already.

    Raises WrongModelKindError for a model not of `kind`, and ModelAbsentError with the command that installs it.
    """
    own = catalog.kind(name)
    if own != kind:
        able = ", ".join(info.name for info in catalog.models() if info.kind == kind)
        raise WrongModelKindError(
            f"Model '{name}' {_DOES[own]}; asked for is one that {_DOES[kind]}: {able or 'none'}."
        )
    state = worker.state(name)
    if state.status in (ModelStatus.IDLE, ModelStatus.ABSENT):
        if not catalog.present(name):
            hint = next(info.install_hint for info in catalog.models() if info.name == name)
            raise ModelAbsentError(f"The weights of model '{name}' are not on this machine. {hint}")
        state = worker.request_load(name)
    return state


class ModelLoads:
    """Queue of requests that wait for a model to be loaded. One serves all requests: it bounds how many wait."""

    def __init__(self, admission: Admission, *, most: int, seconds: float) -> None:
        """Let at most `most` requests wait at once, each for up to `seconds`, and none once `admission` drains."""
        self._admission = admission
        self._most = most
        self._seconds = seconds
        self._waiting = 0

    async def wait(self, state: ModelState, progress: Progress | None = None) -> None:
        """Wait while the model of `state` is loaded and warmed; call `progress` after each step.

        Returns at once if too many wait already. `ModelState.ready_model` tells afterwards whether the model is ready.
        Raises DrainingError.
        """
        if state.status not in _UNDER_WAY or self._waiting >= self._most:
            return
        told: int | None = None
        end = time.monotonic() + self._seconds
        self._waiting += 1
        try:
            while state.status in _UNDER_WAY and time.monotonic() < end:
                if self._admission.draining:
                    raise DrainingError("The server is shutting down; try again shortly.")
                done = 0 if state.step is None else state.step.done
                if progress is not None and done != told:
                    told = done
                    await progress(state)
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            self._waiting -= 1
