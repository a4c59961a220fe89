"""Models that requests ask for: of the right kind, on this machine, loaded when they are first needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from app.engine.catalog import Catalog
from app.engine.scheduler import ModelState, ModelStatus
from app.engine.worker import ModelWorker
from app.errors import DrainingError, ModelAbsentError, WrongModelKindError
from models.contract import Kind

# Told how far a model is that a request waits for.
Progress = Callable[[ModelState], Awaitable[None]]

# Seconds between two looks whether a model is loaded.
_LOOK_EVERY = 0.05
_UNDER_WAY = (ModelStatus.LOADING, ModelStatus.WARMING)
_DOES: dict[str, str] = {"text-to-speech": "speaks", "translation": "translates"}


def require(catalog: Catalog, worker: ModelWorker, name: str, kind: Kind) -> None:
    """See that the model with the canonical name `name` is of `kind`, and is loaded or begins to load.

    Raises WrongModelKindError, and ModelAbsentError with the command that installs the weights.
    """
    own = catalog.kind(name)
    if own != kind:
        able = ", ".join(info.name for info in catalog.models() if info.kind == kind)
        raise WrongModelKindError(
            f"Model '{name}' {_DOES[own]}; asked for is one that {_DOES[kind]}: {able or 'none'}."
        )
    if worker.state(name).status in (ModelStatus.IDLE, ModelStatus.ABSENT):
        if not catalog.present(name):
            hint = next(info.install_hint for info in catalog.models() if info.name == name)
            raise ModelAbsentError(f"The weights of model '{name}' are not on this machine. {hint}")
        worker.request_load(name)


class Loads:
    """Waits for models that are being loaded. One for all requests: it bounds how many of them wait."""

    def __init__(self, worker: ModelWorker, *, most: int, seconds: float) -> None:
        """At most `most` requests wait at once, each for up to `seconds`."""
        self._worker = worker
        self._most = most
        self._seconds = seconds
        self._waiting = 0
        self._draining = False

    def drain(self) -> None:
        """Let nobody wait any longer: the server goes down."""
        self._draining = True

    async def wait(self, name: str, progress: Progress | None = None) -> None:
        """Wait while the model `name` is loaded and warmed; tell `progress` of each step.

        Afterwards, or at once where too many wait already, `ModelWorker.ready_model` says how it stands. Raises
        DrainingError.
        """
        state = self._worker.state(name)
        if state.status not in _UNDER_WAY or self._waiting >= self._most:
            return
        told: int | None = None
        end = time.monotonic() + self._seconds
        self._waiting += 1
        try:
            while state.status in _UNDER_WAY and time.monotonic() < end:
                if self._draining:
                    raise DrainingError("The server is shutting down; try again shortly.")
                done = 0 if state.step is None else state.step.done
                if progress is not None and done != told:
                    told = done
                    await progress(state)
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            self._waiting -= 1
