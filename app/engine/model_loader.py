"""Load a model and warm every shape of it. Runs on the model thread."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from app.engine.model_state import ModelState, ModelStatus
from app.errors import without_paths
from app.observability import metrics
from models.contract import Cancelled, Model, WarmupStep, WeightsMissingError

log = logging.getLogger(__name__)

Load = Callable[[str], Model]


class ModelLoader:
    """Brings models from their files to warm.

    `on_loaded` is called on the model thread with every model that was loaded, before it is warmed. If it raises, the
    model cannot be used, and its exception is the reason.
    """

    def __init__(self, load: Load, *, warmup: bool) -> None:
        self.on_loaded: Callable[[str, Model], None] = lambda name, model: None
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
        if self._warmup:
            state.status = ModelStatus.WARMING
            model.warm(progress)


def _mlx_memory() -> int | None:
    """Return the bytes of MLX's arrays; None while nothing has imported MLX, or another thread imports it."""
    memory = getattr(sys.modules.get("models.backend"), "memory", None)
    return None if memory is None else int(memory().active)
