"""States of a model, and the errors of one that is not ready."""

from __future__ import annotations

import pytest

from app.engine.model_loader import ModelState, ModelStatus
from app.errors import ModelAbsentError, ModelFailedError, ModelLoadingError, WrongModelKindError
from models.contract import WarmupStep
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
