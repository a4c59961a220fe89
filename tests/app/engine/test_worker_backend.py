"""The model thread beside a thread that imports MLX: a module is listed before its functions are there."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from app.engine.worker import _call_backend, _give_back


def test_a_backend_that_another_thread_is_importing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("models.backend")
    monkeypatch.setitem(sys.modules, "models.backend", module)
    called: list[bool] = []
    _give_back(rested=True)
    _call_backend("release_thread")
    module.give_back = lambda *, rested: called.append(rested)
    _give_back(rested=True)
    assert called == [True]
