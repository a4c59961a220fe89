"""Engine: the parts that compute, put together. The server, the command line and measurements open the same one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.config import Settings
from app.engine.admission import Admission
from app.engine.catalog import Catalog
from app.engine.model_loader import ModelLoads, ModelState
from app.engine.unloading import UnloadRules
from app.engine.worker import ModelWorker
from app.generation.service import GenerationService
from app.interpretation.service import InterpretationService
from app.recognition.service import RecognitionService
from app.speech.service import SpeechService
from app.threads import REQUESTS
from app.translation.service import TranslationService
from models.contract import ModelKind

_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Engine:
    """The models' thread, and the services that give it work."""

    settings: Settings
    catalog: Catalog
    worker: ModelWorker
    loads: ModelLoads
    admission: Admission
    speech: SpeechService
    translation: TranslationService
    recognition: RecognitionService
    interpretation: InterpretationService
    generation: GenerationService

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        catalog: Catalog | None = None,
        *,
        warmup: bool = False,
        rules: UnloadRules | None = None,
        queue_seconds: float | None = None,
        stop_seconds: float = 5.0,
    ) -> AsyncIterator[Engine]:
        """Yield an engine whose thread runs; close its services and end the thread afterwards.

        Args:
            settings: The choices of the deployment.
            catalog: None: the models of this machine.
            warmup: Whether every shape is computed once when a model is loaded.
            rules: When models are unloaded; None: never.
            queue_seconds: Longest wait of a job for its first turn; None: any, as a command waits for itself.
            stop_seconds: Longest wait for the models' thread to end.
        """
        catalog = Catalog(settings) if catalog is None else catalog
        worker = ModelWorker(
            catalog.load,
            warmup=warmup,
            queue_size=settings.queue_size,
            queue_seconds=queue_seconds,
            rules=rules,
            size_of=catalog.size,
        )
        admission = Admission(settings.max_load, settings.max_streams)
        # One bound for the requests that wait for a model, whatever it does.
        loads = ModelLoads(catalog, worker, admission, most=settings.queue_size, seconds=settings.queue_seconds)
        translation = TranslationService(settings, catalog, worker, loads)
        speech = SpeechService(settings, catalog, worker, loads, translation, admission)
        recognition = RecognitionService(settings, catalog, worker, loads, admission)
        interpretation = InterpretationService(recognition, speech)
        generation = GenerationService(settings, catalog, worker, loads, admission)
        worker.start()
        try:
            services = (speech, translation, recognition, interpretation, generation)
            yield cls(settings, catalog, worker, loads, admission, *services)
        finally:
            speech.close()
            translation.close()
            recognition.close()
            await generation.close()
            # The thread finishes the chunk that it computes; the event loop must not wait for it.
            await REQUESTS.run(worker.stop, stop_seconds)

    async def load(self, name: str, kind: ModelKind) -> ModelState:
        """Load a model, and return its state once it is READY, ABSENT or FAILED.

        Raises UnknownModelError, WrongModelKindError.
        """
        state = self.loads.require(name, kind)
        while state.under_way:  # noqa: ASYNC110  (the models' thread changes it)
            await asyncio.sleep(_POLL_SECONDS)
        return state
