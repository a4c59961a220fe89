"""State of one model on the model thread: from files to warm, and the model itself once it can be used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.errors import ModelAbsentError, ModelFailedError, ModelLoadingError, WrongModelKindError
from models.contract import Model, Synthesizer, Translator, VoiceCloner, WarmupStep


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
    """

    name: str
    status: ModelStatus = ModelStatus.IDLE
    model: Model | None = None
    step: WarmupStep | None = None
    seconds: float = 0.0
    error: str | None = None
    memory: int | None = None
    # The model by its kind: `isinstance` of a protocol takes long, and every request asks.
    _synthesizer: Synthesizer | None = None
    _translator: Translator | None = None

    def note_loaded(self, model: Model) -> None:
        """Keep the model, which is not warm yet."""
        self.model = model
        if isinstance(model, Translator):
            self._translator = model
        else:
            self._synthesizer = model

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
        if self._synthesizer is None:
            raise WrongModelKindError(f"Model '{self.name}' translates; it does not speak.")
        return self._synthesizer

    def ready_translator(self) -> Translator:
        """Return the warm model, which translates. Raises as `ready_model` does, and WrongModelKindError."""
        self.ready_model()
        if self._translator is None:
            raise WrongModelKindError(f"Model '{self.name}' speaks; it does not translate.")
        return self._translator

    def ready_cloner(self) -> VoiceCloner:
        """Return the warm model, which clones voices. Raises as `ready_model` does, and WrongModelKindError."""
        model = self.ready_model()
        if not isinstance(model, VoiceCloner):
            raise WrongModelKindError(f"Model '{self.name}' cannot speak in the voice of a recording.")
        return model
