"""Rules for the unloading of models: after idle time, and by a memory budget, the least recently used one first.

Plain values, no thread and no clock: `ModelWorker` applies them on the model thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.engine.model_loader import ModelState, ModelStatus
from app.errors import ModelMemoryError, ModelTooLargeError

# Reasons for unloading a model, as metrics name them.
Reason = Literal["idle", "memory", "request"]
# Seconds for which a model that was loaded for a request is kept until it comes back.
GRACE = 5.0


@dataclass(frozen=True, slots=True)
class UnloadRules:
    """Choices of a deployment. `budget` is in bytes; 0: any number.

    A model is unloaded after `idle_seconds` without use, or after those of `idle_by_model`; 0: never.
    """

    budget: int = 0
    idle_seconds: float = 0.0
    idle_by_model: Mapping[str, float] = field(default_factory=dict)

    def idle_limit(self, name: str) -> float:
        """Return the seconds without use after which the model `name` is unloaded; 0: never."""
        return self.idle_by_model.get(name, self.idle_seconds)

    def due(self, states: Iterable[ModelState], now: float) -> tuple[ModelState, Reason] | None:
        """Return a model that is to be unloaded at `now` (monotonic) and nobody uses, with the reason; None: none is.

        While the loaded models exceed the budget, the least recently used one is due.
        """
        states = list(states)
        free = [state for state in states if state.model is not None and not state.in_use]
        for state in free:
            if state.status is ModelStatus.UNLOADING:
                return state, "request"
        ready = [state for state in free if state.status is ModelStatus.READY]
        for state in ready:
            limit = self.idle_limit(state.name)
            if limit and now - state.last_used >= limit:
                return state, "idle"
        if self.budget and used(states) > self.budget:
            oldest = min(filter(lambda state: _may_go(state, now), ready), key=_last_used, default=None)
            if oldest is not None:
                return oldest, "memory"
        return None

    def victims(self, states: Iterable[ModelState], wanted: ModelState, now: float) -> list[ModelState] | None:
        """Return the models to unload before `wanted` is loaded, the least recently used first.

        None: those that may be unloaded leave too little room.
        """
        others = [state for state in states if state is not wanted]
        excess = used(others) + wanted.memory_needed - self.budget
        chosen: list[ModelState] = []
        if not self.budget:
            return chosen
        free = [state for state in others if state.status is ModelStatus.READY and not state.in_use]
        for state in sorted((state for state in free if _may_go(state, now)), key=_last_used):
            if excess <= 0:
                break
            chosen.append(state)
            excess -= state.memory_needed
        return None if excess > 0 else chosen

    def too_large(self, state: ModelState) -> bool:
        """Whether the model alone exceeds the budget."""
        return bool(self.budget) and state.memory_needed > self.budget

    def refuse_size(self, state: ModelState) -> ModelTooLargeError:
        """Return the error for a model that is too large."""
        needed = _size(state.memory_needed)
        return ModelTooLargeError(
            f"Model '{state.name}' needs {needed} of memory; 'memory_budget' is {_size(self.budget)}."
        )

    def refuse_room(self, state: ModelState, states: Iterable[ModelState]) -> ModelMemoryError:
        """Return the error for a model beside which others, of `states`, have to stay."""
        others = [other for other in states if other.model is not None and other is not state]
        names = ", ".join(other.name for other in others)
        return ModelMemoryError(
            f"Model '{state.name}' needs {_size(state.memory_needed)} of memory; 'memory_budget' is "
            f"{_size(self.budget)}, and {_size(used(others))} are in use ({names}). Try again shortly."
        )


def used(states: Iterable[ModelState]) -> int:
    """Return the bytes of the models that are loaded."""
    return sum(state.memory_needed for state in states if state.model is not None)


def _last_used(state: ModelState) -> float:
    return state.last_used


def _may_go(state: ModelState, now: float) -> bool:
    """Whether no request is about to come back for the model."""
    return not state.awaited or now - state.last_used >= GRACE


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
