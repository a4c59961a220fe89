"""The model thread beside a thread that imports MLX: a module is listed before its functions are there."""

from __future__ import annotations

import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

import pytest

from app.engine.backend import active_memory, call_backend, free_memory
from app.engine.worker import ModelWorker
from models.contract import WeightsMissingError
from models.native.programs import run_all
from tests.processes import wait_until


def test_a_backend_that_another_thread_is_importing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("models.backend")
    monkeypatch.setitem(sys.modules, "models.backend", module)
    called: list[bool] = []
    call_backend("give_back", rested=True)
    call_backend("release_thread")
    free_memory()
    assert active_memory() is None
    module.give_back = lambda *, rested: called.append(rested)
    call_backend("give_back", rested=True)
    assert called == [True]


def test_compiling_kernels_is_progress() -> None:
    """A model whose load waits for a compiler is not stuck: the thread's heart beats."""
    beats: list[float] = []

    def load(name: str) -> Any:
        beats.append(worker.heartbeat_age)
        time.sleep(0.3)
        beats.append(worker.heartbeat_age)
        run_all([[sys.executable, "-c", "0"]], time.monotonic() + 60, Path(tempfile.gettempdir()))
        beats.append(worker.heartbeat_age)
        raise WeightsMissingError("enough")

    worker = ModelWorker(load)
    worker.start()
    worker.request_load("one")
    wait_until(lambda: len(beats) == 3)
    worker.stop()
    assert beats[1] >= 0.3
    assert beats[2] < beats[1]
