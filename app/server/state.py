"""What every surface works with, carried by the application's state."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from app.config import Settings
from app.engine.admission import Admission
from app.engine.catalog import Catalog
from app.engine.model_state import ModelState, ModelStatus
from app.engine.worker import ModelWorker
from app.speech.service import SpeechService
from app.translation.service import TranslationService


@dataclass(frozen=True, slots=True)
class Services:
    """One application's parts."""

    settings: Settings
    catalog: Catalog
    worker: ModelWorker
    admission: Admission
    speech: SpeechService
    translation: TranslationService
    preload: tuple[str, ...]

    def states(self) -> list[ModelState]:
        """The models readiness waits for."""
        return [self.worker.state(name) for name in self.preload]

    @property
    def ready(self) -> bool:
        """Every model to be served and the lexicons are warm, and the server is not going down."""
        warm = self.speech.front_end == "ready" and all(state.status is ModelStatus.READY for state in self.states())
        return warm and not self.admission.draining


def services(connection: HTTPConnection) -> Services:
    """The parts of the application that serves `connection`."""
    found = connection.app.state.services
    if not isinstance(found, Services):
        raise TypeError("the application was not started")
    return found
