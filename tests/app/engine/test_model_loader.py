"""States of a model, and the errors of one that is not ready."""

from __future__ import annotations

import logging
import sys

import pytest

from app.engine.model_loader import Hardware, ModelLoader, ModelState, ModelStatus
from app.errors import ModelAbsentError, ModelFailedError, ModelLoadingError, WrongModelKindError
from models.backend import device_name
from models.contract import WarmupStep
from models.native import kernels
from tests.app.standins import Parrot, Shout, Tone


def ready(model: Tone | Parrot | Shout) -> ModelState:
    state = ModelState("m")
    state.note_loaded(model)
    state.status = ModelStatus.READY
    return state


def test_a_model_is_used_once_it_is_ready() -> None:
    tone = Tone()
    state = ModelState("m", ModelStatus.WARMING, step=WarmupStep("tokens=32", 1, 4, 0.1))
    state.note_loaded(tone)
    with pytest.raises(ModelLoadingError, match="1 of 4 shapes warm"):
        state.ready_synthesizer()
    state.status = ModelStatus.READY
    assert state.ready_synthesizer() is tone


@pytest.mark.parametrize(
    ("status", "error"), [(ModelStatus.ABSENT, ModelAbsentError), (ModelStatus.FAILED, ModelFailedError)]
)
def test_a_model_that_cannot_be_used_says_why(status: ModelStatus, error: type[Exception]) -> None:
    with pytest.raises(error, match="disk on fire"):
        ModelState("m", status, error="disk on fire").ready_model()


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(WrongModelKindError, match="does not speak"):
        ready(Shout()).ready_synthesizer()
    with pytest.raises(WrongModelKindError, match="does not translate"):
        ready(Tone()).ready_translator()
    with pytest.raises(WrongModelKindError, match="voice of a recording"):
        ready(Tone()).ready_cloner()
    assert ready(Parrot()).ready_cloner()


def test_the_first_load_tells_what_models_compute_with(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    loader = ModelLoader(lambda name: Tone(), warmup=False)
    for name in ("one", "two"):
        loader.bring_up(ModelState(name), lambda: None)
    assert loader.hardware == Hardware(device_name(), kernels.description())
    lines = [line for line in caplog.messages if line.startswith("device: ")]
    assert lines == [f"device: {device_name()}; kernels: {kernels.description()}"]


def test_models_without_mlx_compute_with_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "models.backend")
    loader = ModelLoader(lambda name: Tone(), warmup=False)
    loader.bring_up(ModelState("one"), lambda: None)
    assert loader.hardware is None
